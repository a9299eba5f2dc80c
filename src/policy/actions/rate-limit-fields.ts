import type { Flow } from '../../flow/flow.js'

/**
 * `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10: the quota of the window, what is left
 * of it, and the seconds until all of it is. Several limits give several members of the same list.
 */
export function rateLimitFields(
  name: string,
  capacity: number,
  seconds: number
): (flow: Flow, remaining: number, resetSeconds: number) => void {
  const member = structuredString(name)
  const policy = `${member};q=${capacity};w=${seconds}`
  return (flow, remaining, resetSeconds) => {
    flow.responseFields ??= []
    flow.responseFields.push('RateLimit-Policy', policy, 'RateLimit', `${member};r=${remaining};t=${resetSeconds}`)
  }
}

/** A String of RFC 9651 3.3.3; it holds printable ASCII only, so other characters are percent-encoded. */
function structuredString(text: string): string {
  const printable = Array.from(text, (character) =>
    /[\x20-\x7e]/.test(character) ? character : percent(character)
  ).join('')
  return `"${printable.replace(/["\\]/g, '\\$&')}"`
}

function percent(character: string): string {
  return Array.from(
    Buffer.from(character, 'utf8'),
    (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  ).join('')
}
