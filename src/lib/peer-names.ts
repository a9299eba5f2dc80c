/** Maximum number of cached names; one takes about 200 bytes with its value. */
const MAX_NAMES = 2_048
/** Maximum length of a cached name. */
const MAX_LENGTH = 64

/**
 * A cache by names that peers choose, bounded in number and bytes. A name beyond the bounds is not cached, so that made-up names do not
 * evict common ones.
 */
export class PeerNames<Value> extends Map<string, Value> {
  /** Caches the value of a name if there is room. */
  remember(name: string, value: Value): void {
    if (this.size < MAX_NAMES && name.length <= MAX_LENGTH) this.set(ownText(name), value)
  }
}

/** Returns a copy of a text. A substring would keep V8's whole original text in memory. */
export function ownText(text: string): string {
  const copy = Buffer.from(text, 'latin1').toString('latin1')
  return copy === text ? copy : Buffer.from(text, 'utf16le').toString('utf16le')
}
