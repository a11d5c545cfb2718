// Node.js' HTTP server, which answers each request with what it took it for: for the comparison of parsers, and behind the
// proxies that are compared. Says its port first; ends with standard input.
const http = require('http');

const server = http.createServer({requestTimeout: 1500, headersTimeout: 1000, connectionsCheckingInterval: 200},
  (request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      const text = `${request.method} ${request.url} .${Buffer.concat(pieces).toString('hex')}\n`;
      response.writeHead(200, {'Content-Length': text.length});
      response.end(text);
    });
  });
server.on('clientError', (error, socket) => {
  if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
});
server.on('upgrade', (request, socket) => socket.destroy());
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
