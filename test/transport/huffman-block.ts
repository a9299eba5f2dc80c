import { LENGTHS } from '../../src/transport/http2/hpack-tables.js'

/** The Huffman code of each byte as a text of bits: codes of one length follow each other (RFC 7541 Appendix B). */
const CODES: string[] = []
let [code, size] = [0, 0]
for (const { length, symbol } of [...LENGTHS]
  .map((digit, symbol) => ({ length: Number.parseInt(digit, 36), symbol }))
  .sort((a, b) => a.length - b.length || a.symbol - b.symbol)) {
  code *= 2 ** (length - size)
  size = length
  CODES[symbol] = code.toString(2).padStart(length, '0')
  code++
}

/** A string literal with the Huffman code and its length (RFC 7541 5.2), of less than 127 bytes. */
export function coded(text: string): Buffer {
  let bits = ''
  for (const byte of Buffer.from(text, 'latin1')) bits += CODES[byte]
  bits = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1')
  const bytes = bits.match(/.{8}/g) ?? []
  return Buffer.from([0x80 | bytes.length, ...bytes.map((byte) => Number.parseInt(byte, 2))])
}

/** A header block of literals with the Huffman code that enter no table (RFC 7541 6.2.2); strings of less than 127 bytes. */
export function huffmanBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), coded(name), coded(value)]))
}
