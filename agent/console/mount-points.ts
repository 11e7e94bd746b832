/** The mount points of a `/proc/self/mountinfo`, with the octal escapes of spaces and the like undone. */
export function parseMountPoints(mountInfo: string): string[] {
  const points: string[] = [];
  for (const line of mountInfo.split("\n")) {
    const point = line.split(" ")[4];
    if (point === undefined) continue;
    const bytes = point.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    points.push(Buffer.from(bytes, "latin1").toString("utf8"));
  }
  return points;
}
