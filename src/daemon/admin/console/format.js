// Numbers as people read them.

export function bits(perSecond) {
  if (perSecond >= 1e9) return (perSecond / 1e9).toFixed(2) + " Gbit/s";
  if (perSecond >= 1e6) return (perSecond / 1e6).toFixed(2) + " Mbit/s";
  return (perSecond / 1e3).toFixed(0) + " kbit/s";
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return count.toFixed(unit ? 1 : 0) + " " + units[unit];
}

export function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + (Math.floor(s / 60) % 60) + " min";
  return Math.floor(s / 86400) + " d " + (Math.floor(s / 3600) % 24) + " h";
}

export function seconds(ms) {
  return (ms / 1000).toFixed(1) + " s";
}

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function percent(share) {
  return (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %";
}
