/** One element of DER (X.690): its tag byte and its content. */
export interface DerElement {
  readonly tag: number
  readonly content: Uint8Array
}

/** The elements that stand one after the other in `bytes`; undefined when they are malformed. */
export function readDer(bytes: Uint8Array): DerElement[] | undefined {
  const elements: DerElement[] = []
  let at = 0
  while (at < bytes.length) {
    const tag = bytes[at] as number
    const first = bytes[at + 1]
    if (first === undefined) return undefined
    at += 2
    let length = first
    if (first > 0x80) {
      const size = first & 0x7f
      if (size > 4 || at + size > bytes.length) return undefined
      length = 0
      for (let i = 0; i < size; i++) length = length * 256 + (bytes[at + i] as number)
      at += size
    }
    if (first === 0x80 || at + length > bytes.length) return undefined
    elements.push({ tag, content: bytes.subarray(at, at + length) })
    at += length
  }
  return elements
}

/** The elements inside a constructed element; none when they are malformed. */
export function children(element: DerElement | undefined): readonly DerElement[] {
  return element === undefined ? [] : (readDer(element.content) ?? [])
}

/** Dotted text of an OBJECT IDENTIFIER. */
export function oidText(content: Uint8Array): string {
  const parts: bigint[] = []
  let part = 0n
  for (const byte of content) {
    part = (part << 7n) | BigInt(byte & 0x7f)
    if (byte < 0x80) {
      parts.push(part)
      part = 0n
    }
  }
  const [first = 0n, ...rest] = parts
  const top = first < 80n ? first / 40n : 2n
  return [top, first - top * 40n, ...rest].join('.')
}

/** Text of a character string type: BMPString is UTF-16, T61String taken for Latin-1, all others UTF-8. */
export function stringText({ tag, content }: DerElement): string {
  if (tag === 0x1e) {
    let text = ''
    for (let i = 0; i + 1 < content.length; i += 2) {
      text += String.fromCharCode((content[i] as number) * 256 + (content[i + 1] as number))
    }
    return text
  }
  return Buffer.from(content).toString(tag === 0x14 ? 'latin1' : 'utf8')
}

/** Instant of a UTCTime or GeneralizedTime (RFC 5280 4.1.2.5); undefined when malformed. */
export function timeValue(element: DerElement | undefined): Date | undefined {
  if (element === undefined) return undefined
  const digits = Buffer.from(element.content).toString('latin1')
  const match = /^(\d{2}|\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/.exec(digits)
  if (match === null) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number
  ]
  const full = match[1]?.length === 4 ? year : year < 50 ? 2000 + year : 1900 + year
  return new Date(Date.UTC(full, month - 1, day, hour, minute, second))
}
