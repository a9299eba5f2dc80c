/** What no URL may hold as it stands (RFC 3986 2): controls, space, the excluded ASCII, and everything beyond ASCII. */
const UNSAFE = /[^\x21-\x7e]|["<>\\^`{|}]/gu

/**
 * `text` with every character that a URL cannot hold percent-encoded as UTF-8; escapes that stand in it stay. So a line
 * break that a client smuggled through decoding becomes `%0D%0A` again, and a backslash never passes for a slash.
 */
export function asUrl(text: string): string {
  return text.replace(UNSAFE, (character) => {
    let encoded = ''
    for (const byte of Buffer.from(character, 'utf8')) encoded += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    return encoded
  })
}
