/** One element of DER (X.690 8.1); its bytes are those of the buffer that it was read from. */
export interface DerElement {
  readonly tag: number
  /** Without the header. */
  readonly content: Buffer
  /** With the header. */
  readonly whole: Buffer
}

const LONG_FORM = 0x80

/** The elements that stand one after another in `bytes`; undefined where they are malformed or end early. */
export function readDer(bytes: Uint8Array): DerElement[] | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: DerElement[] = []
  let at = 0
  while (at < buffer.length) {
    const start = at
    const tag = buffer[at] as number
    const first = buffer[at + 1]
    // The indefinite form is none of DER.
    if (first === undefined || first === LONG_FORM) return undefined
    at += 2
    let length = first
    if (first > LONG_FORM) {
      const size = first - LONG_FORM
      // Nothing that is read here needs longer lengths.
      if (size > 4 || at + size > buffer.length) return undefined
      length = buffer.readUIntBE(at, size)
      at += size
    }
    if (at + length > buffer.length) return undefined
    elements.push({ tag, content: buffer.subarray(at, at + length), whole: buffer.subarray(start, at + length) })
    at += length
  }
  return elements
}

/** The elements inside a constructed element; undefined where there is none or its content is malformed. */
export function childrenOf(element: DerElement | undefined): readonly DerElement[] | undefined {
  return element === undefined ? undefined : readDer(element.content)
}

const UTC_TIME = 0x17

/** Milliseconds since the Unix epoch of a UTCTime or GeneralizedTime (RFC 5280 4.1.2.5); NaN when malformed. */
export function readDerTime({ tag, content }: DerElement): number {
  const text = Buffer.from(content).toString('latin1')
  const full = tag === UTC_TIME ? `${Number(text.slice(0, 2)) < 50 ? '20' : '19'}${text}` : text
  return Date.parse(full.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
}
