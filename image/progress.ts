/** Says on stderr what the image build is doing. */
export function progress(message: string): void {
  console.error(`image: ${message}`);
}
