/** A number of bytes in the unit that suits it. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  for (; bytes >= 1000 && i < units.length - 1; i++) bytes /= 1024;
  return `${bytes >= 100 || i === 0 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[i]}`;
}
