/**
 * The Huffman code of HPACK (RFC 7541 5.2, Appendix B) as a state machine that reads four bits at a time. The code is canonical (codes of one
 * length follow each other in the order of their symbols), so that it follows from the lengths.
 */

/** Length of the code of each byte, then of EOS, as digits of base 36; 64 to a line. */
export const LENGTHS = [
  'dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6ca',
  'd67777777777777777777777878djde6f56565666577666567655677777fbeds',
  'kmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn',
  'qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq',
  'u'
].join('')
const EOS = 256

/** Set in an entry of `STEPS` when the four bits complete a byte, which is in bits 8 to 15. */
export const EMITS = 1 << 16
/** Set when the four bits complete EOS, which is invalid in a string (RFC 7541 5.2). */
export const FAILS = 1 << 17
/** Entries at `(state << 4) | bits`; bits 0 to 7 have the next state. Strings begin in state 0. */
export const STEPS = new Uint32Array(256 * 16)
/** 1 for states in which a string may end: fewer than eight padding bits (ones) since the last symbol. */
export const MAY_END = new Uint8Array(256)

/** Length of the Huffman code of each byte (bits). */
export const CODE_SIZES = new Uint8Array(256)
/** Huffman code of each byte. */
export const CODES = new Uint32Array(256)

/** Returns the code tree: `children[2 * node + bit]` is a node, or a symbol as `-1 - symbol`. */
function tree(): number[] {
  const children = [0, 0]
  let code = 0
  let length = 0
  const bySize = Array.from(LENGTHS, (digit, symbol) => ({ size: Number.parseInt(digit, 36), symbol }))
  for (const { size, symbol } of bySize.sort((a, b) => a.size - b.size || a.symbol - b.symbol)) {
    code *= 2 ** (size - length)
    length = size
    if (symbol < EOS) {
      CODE_SIZES[symbol] = size
      CODES[symbol] = code
    }
    let node = 0
    for (let bit = size - 1; bit > 0; bit--) {
      const at = 2 * node + ((code >>> bit) & 1)
      if (children[at] === 0) {
        children[at] = children.length / 2
        children.push(0, 0)
      }
      node = children[at] as number
    }
    children[2 * node + (code & 1)] = -1 - symbol
    code++
  }
  return children
}

function fill(children: readonly number[]): void {
  for (let state = 0; state < 256; state++) {
    for (let bits = 0; bits < 16; bits++) {
      let [node, result] = [state, 0]
      for (let bit = 3; bit >= 0; bit--) {
        const next = children[2 * node + ((bits >> bit) & 1)] as number
        if (next === -1 - EOS) result |= FAILS
        else if (next < 0) result |= EMITS | ((-1 - next) << 8)
        node = Math.max(0, next)
      }
      STEPS[(state << 4) | bits] = result | node
    }
  }
  for (let node = 0, ones = 0; ones < 8; ones++) {
    MAY_END[node] = 1
    node = children[2 * node + 1] as number
  }
}

fill(tree())

/** Static table from index 1 (RFC 7541 Appendix A), as `name` or `name=value`. */
const FIELDS =
  ':authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|:status=206|' +
  ':status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|' +
  'accept|access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|content-encoding|' +
  'content-language|content-length|content-location|content-range|content-type|cookie|date|etag|expect|expires|from|host|' +
  'if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location|max-forwards|' +
  'proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|strict-transport-security|' +
  'transfer-encoding|user-agent|vary|via|www-authenticate'

/** Field of a table. */
export interface TableField {
  readonly name: string
  readonly value: string
  /** True if the name is within the grammar (RFC 9113 8.2.1); `valueSound`: the value. */
  readonly nameSound: boolean
  readonly valueSound: boolean
}

/** Overhead of a field in a table and in a counted list (bytes; RFC 7541 4.1, RFC 9113 6.5.2). */
export const FIELD_OVERHEAD = 32
/** Initial SETTINGS_HEADER_TABLE_SIZE, and maximum table size in both directions (bytes). */
export const TABLE_SIZE = 4096

export const STATIC_TABLE: readonly TableField[] = FIELDS.split('|').map((field) => {
  const split = field.indexOf('=')
  const [name, value] = split < 0 ? [field, ''] : [field.slice(0, split), field.slice(split + 1)]
  return { name, value, nameSound: true, valueSound: true }
})

/** First static index of each name. */
export const STATIC_NAMES: ReadonlyMap<string, number> = new Map(
  STATIC_TABLE.map(({ name }, i) => [name, i + 1] as const).reverse()
)

/** Static index by name and value. */
export const STATIC_VALUES: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map(
  [...new Set(STATIC_TABLE.filter(({ value }) => value !== '').map(({ name }) => name))].map((wanted) => [
    wanted,
    new Map(STATIC_TABLE.flatMap(({ name, value }, i) => (name === wanted ? [[value, i + 1] as const] : [])))
  ])
)
