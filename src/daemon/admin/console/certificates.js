// TLS: for how many connections the kernel encrypts; certificates of the listeners, and when they expire.

import { get } from "./api.js";
import { Rows, element, makeRow, setCells, setHidden, setText } from "./dom.js";
import { count } from "./format.js";

const MOST = 200; // Rows: those that expire first.
const COLUMNS = [{}, {}, { number: true }, {}, {}];
const HASH_SHOWN = 16;

let worst = null; // The certificate that expires first, if it does soon.

function nameOf(certificate) {
  return certificate.name || certificate.subject;
}

function daysText(certificate) {
  return certificate.state === "expired" ? "expired" : count(certificate.days) + (certificate.days === 1 ? " day" : " days");
}

function showRow(row, certificate) {
  row.className = certificate.state === "valid" ? "" : "failing";
  row.dataset.certificate = nameOf(certificate);
  setCells(row, [nameOf(certificate), certificate.subject, daysText(certificate), certificate.expires.replace("T", " ").replace("Z", " UTC"),
    certificate.sha256.slice(0, HASH_SHOWN)]);
}

const rows = new Rows(element("certificate-rows"), () => makeRow(COLUMNS), showRow, (one) => one.sha256);

// Whether the kernel encrypts (kTLS), or why it does not.
function kernelText({ setting, used, failed, reason }, byKernel) {
  if (setting === "off") return "kTLS is off";
  if (used) return count(byKernel) + " encrypted by the kernel (kTLS)";
  return failed ? "kTLS is not used: " + failed + ": " + reason : "kTLS has not been tried";
}

function stateText(tls) {
  return count(tls.connections) + (tls.connections === 1 ? " connection, " : " connections, ") + kernelText(tls.ktls, tls.ktls_connections);
}

export async function updateCertificates() {
  const [{ certificates }, tls] = await Promise.all([get("api/v1/certificates"), get("api/v1/tls")]);
  certificates.sort((a, b) => a.days - b.days || (nameOf(a) < nameOf(b) ? -1 : 1));
  worst = certificates.length && certificates[0].state !== "valid" ? certificates[0] : null;
  // Forwards and pulls may have TLS without a listener that has it.
  setHidden(element("certificates"), certificates.length === 0 && tls.connections === 0 && tls.ktls.setting === "off");
  setHidden(element("certificate-table"), certificates.length === 0);
  setText(element("tls-state"), stateText(tls));
  rows.update(certificates.slice(0, MOST));
  setHidden(element("more-certificates"), certificates.length <= MOST);
  setText(element("more-certificates"), "and " + count(certificates.length - MOST) + " more");
}

// Empty if none expires soon.
export function certificateWarning() {
  if (!worst) return "";
  return "The certificate of " + nameOf(worst) + (worst.state === "expired" ? " has expired." : " expires in " + daysText(worst) + ".");
}
