/** Number of names that are remembered, and length of the longest: with its value one takes about 200 bytes. */
const MAX_NAMES = 2_048
const MAX_LENGTH = 64

/**
 * Values by names that peers choose, bounded in number and in bytes. A name that finds no room, or is longer than 64 characters, is
 * not remembered, so that made-up names push no usual one out.
 */
export class PeerNames<Value> extends Map<string, Value> {
  /** Sets the value of a name where there is room. */
  remember(name: string, value: Value): void {
    if (this.size < MAX_NAMES && name.length <= MAX_LENGTH) this.set(ownText(name), value)
  }
}

/** Returns a copy of a text. A part that V8 cuts out of a text keeps all of that text in memory. */
export function ownText(text: string): string {
  const copy = Buffer.from(text, 'latin1').toString('latin1')
  return copy === text ? copy : Buffer.from(text, 'utf16le').toString('utf16le')
}
