/**
 * The Huffman code of HPACK (RFC 7541 5.2, Appendix B) as a state machine that reads four bits at a time. The code is canonical
 * (codes of one length follow each other in the order of their symbols), so the lengths of the codes say everything.
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
/** Set when they complete EOS, which no string holds. */
export const FAILS = 1 << 17
/** Entry for a state and four bits, at `(state << 4) | bits`; the state that follows is in its bits 0 to 7. Strings begin in state 0. */
export const STEPS = new Uint32Array(256 * 16)
/** 1 for the states in which a string may end: less than a byte of ones since the last symbol. */
export const MAY_END = new Uint8Array(256)

/** The tree: `children[2 * node + bit]` is a node, or a symbol as `-1 - symbol`. */
function tree(): number[] {
  const children = [0, 0]
  let code = 0
  let length = 0
  const bySize = Array.from(LENGTHS, (digit, symbol) => ({ size: Number.parseInt(digit, 36), symbol }))
  for (const { size, symbol } of bySize.sort((a, b) => a.size - b.size || a.symbol - b.symbol)) {
    code *= 2 ** (size - length)
    length = size
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
