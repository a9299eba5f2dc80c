/** State of a hasher: the four 64-bit words of SipHash as low and high halves, and the length in bytes. */
export interface Midstate {
  readonly words: Int32Array
  readonly length: number
}

/**
 * SipHash-1-3 with a 128-bit secret (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012; one round for each word of the message,
 * three at the end). Without the secret a client cannot choose colliding texts.
 *
 * The 64-bit result is in `low` and `high` (unsigned) until the next call. Texts are hashed as UTF-8 without a copy; a lone surrogate
 * becomes its three bytes, so that different texts are always different messages.
 */
export class SipHash {
  low = 0
  high = 0
  private a0 = 0
  private a1 = 0
  private b0 = 0
  private b1 = 0
  private c0 = 0
  private c1 = 0
  private d0 = 0
  private d1 = 0
  /** Bytes of an incomplete word, and the length of the whole message. */
  private tail0 = 0
  private tail1 = 0
  private length = 0
  readonly empty: Midstate

  /** @param secret 16 bytes; otherwise throws a RangeError */
  constructor(secret: Uint8Array) {
    if (secret.length !== 16) throw new RangeError('the secret of SipHash has 16 bytes')
    const key = new DataView(secret.buffer, secret.byteOffset, 16)
    const [k0, k1, k2, k3] = [0, 4, 8, 12].map((offset) => key.getInt32(offset, true)) as [
      number,
      number,
      number,
      number
    ]
    this.empty = {
      length: 0,
      words: Int32Array.of(
        ...[k0 ^ 0x70736575, k1 ^ 0x736f6d65, k2 ^ 0x6e646f6d, k3 ^ 0x646f7261],
        ...[k0 ^ 0x6e657261, k1 ^ 0x6c796765, k2 ^ 0x79746573, k3 ^ 0x74656462]
      )
    }
  }

  /**
   * Returns the state after `text` as a start for other messages. The text is preceded by its length and padded with zeros to whole words,
   * so that no two texts give the same state.
   */
  prefix(text: string): Midstate {
    this.start(this.empty)
    const bytes = new TextEncoder().encode(text)
    const padded = new Uint8Array(Math.ceil((bytes.length + 4) / 8) * 8)
    new DataView(padded.buffer).setUint32(0, bytes.length, true)
    padded.set(bytes, 4)
    for (const byte of padded) this.byte(byte)
    return {
      words: Int32Array.of(this.a0, this.a1, this.b0, this.b1, this.c0, this.c1, this.d0, this.d1),
      length: this.length
    }
  }

  /** Hashes `bytes` after the content of `from`. */
  hashBytes(from: Midstate, bytes: Uint8Array): void {
    this.start(from)
    for (const byte of bytes) this.byte(byte)
    this.finish()
  }

  /** Hashes `text` after the content of `from`. */
  hashText(from: Midstate, text: string): void {
    this.start(from)
    const end = text.length
    let at = 0
    // Eight ASCII characters make one word; the slow path continues at the first other character.
    while (at + 8 <= end) {
      const c0 = text.charCodeAt(at)
      const c1 = text.charCodeAt(at + 1)
      const c2 = text.charCodeAt(at + 2)
      const c3 = text.charCodeAt(at + 3)
      const c4 = text.charCodeAt(at + 4)
      const c5 = text.charCodeAt(at + 5)
      const c6 = text.charCodeAt(at + 6)
      const c7 = text.charCodeAt(at + 7)
      if ((c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7) > 0x7f) break
      this.word(c0 | (c1 << 8) | (c2 << 16) | (c3 << 24), c4 | (c5 << 8) | (c6 << 16) | (c7 << 24))
      at += 8
    }
    this.length += at
    for (; at < end; at += 1) {
      const unit = text.charCodeAt(at)
      if (unit < 0x80) this.byte(unit)
      else at += this.wide(text, at, unit)
    }
    this.finish()
  }

  /** Adds the two to four bytes of the character at `at`; returns the number of additional units. */
  private wide(text: string, at: number, unit: number): number {
    if (unit < 0x800) {
      this.byte(0xc0 | (unit >> 6))
      this.byte(0x80 | (unit & 0x3f))
      return 0
    }
    const point = text.codePointAt(at) as number
    if (point > 0xffff) {
      this.byte(0xf0 | (point >> 18))
      this.byte(0x80 | ((point >> 12) & 0x3f))
    } else {
      this.byte(0xe0 | (point >> 12))
    }
    this.byte(0x80 | ((point >> 6) & 0x3f))
    this.byte(0x80 | (point & 0x3f))
    return point > 0xffff ? 1 : 0
  }

  private start(from: Midstate): void {
    const words = from.words
    this.a0 = words[0]!
    this.a1 = words[1]!
    this.b0 = words[2]!
    this.b1 = words[3]!
    this.c0 = words[4]!
    this.c1 = words[5]!
    this.d0 = words[6]!
    this.d1 = words[7]!
    this.tail0 = 0
    this.tail1 = 0
    this.length = from.length
  }

  private byte(value: number): void {
    const place = this.length & 7
    this.length += 1
    if (place < 4) {
      this.tail0 |= value << (place * 8)
      return
    }
    this.tail1 |= value << ((place - 4) * 8)
    if (place === 7) {
      this.word(this.tail0, this.tail1)
      this.tail0 = 0
      this.tail1 = 0
    }
  }

  private word(low: number, high: number): void {
    this.d0 ^= low
    this.d1 ^= high
    this.round()
    this.a0 ^= low
    this.a1 ^= high
  }

  private finish(): void {
    this.word(this.tail0, this.tail1 | (this.length << 24))
    this.c0 ^= 0xff
    this.round()
    this.round()
    this.round()
    this.low = (this.a0 ^ this.b0 ^ this.c0 ^ this.d0) >>> 0
    this.high = (this.a1 ^ this.b1 ^ this.c1 ^ this.d1) >>> 0
  }

  /** SipRound on 32-bit halves: the sum of low halves carries if it is below one of them. */
  private round(): void {
    let { a0, a1, b0, b1, c0, c1, d0, d1 } = this
    let low = (a0 + b0) | 0
    a1 = (a1 + b1 + (low >>> 0 < a0 >>> 0 ? 1 : 0)) | 0
    a0 = low
    let turned = (b0 << 13) | (b1 >>> 19)
    b1 = ((b1 << 13) | (b0 >>> 19)) ^ a1
    b0 = turned ^ a0
    low = (c0 + d0) | 0
    c1 = (c1 + d1 + (low >>> 0 < c0 >>> 0 ? 1 : 0)) | 0
    c0 = low
    turned = (d0 << 16) | (d1 >>> 16)
    d1 = ((d1 << 16) | (d0 >>> 16)) ^ c1
    d0 = turned ^ c0
    // The halves of the first word are swapped here: `a1` is its low half.
    low = (a1 + d0) | 0
    const a = (a0 + d1 + (low >>> 0 < a1 >>> 0 ? 1 : 0)) | 0
    turned = (d0 << 21) | (d1 >>> 11)
    d1 = ((d1 << 21) | (d0 >>> 11)) ^ a
    d0 = turned ^ low
    this.a0 = low
    this.a1 = a
    low = (c0 + b0) | 0
    const c = (c1 + b1 + (low >>> 0 < c0 >>> 0 ? 1 : 0)) | 0
    turned = (b0 << 17) | (b1 >>> 15)
    this.b1 = ((b1 << 17) | (b0 >>> 15)) ^ c
    this.b0 = turned ^ low
    this.c0 = c
    this.c1 = low
    this.d0 = d0
    this.d1 = d1
  }
}
