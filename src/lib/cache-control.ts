/** Seconds per unit of a cache lifetime. */
const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3_600,
  d: 86_400,
  w: 604_800,
  y: 31_536_000
}
const LIFE = /^(\d{1,9})([smhdwy])$/
/** Directives of Cache-Control without a value, and those with a number of seconds (RFC 9111 5.2.2, RFC 5861, RFC 8246). */
const PLAIN =
  /^(?:immutable|must-revalidate|must-understand|no-cache|no-store|no-transform|private|proxy-revalidate|public)$/
const TIMED = /^(max-age|s-maxage|stale-while-revalidate|stale-if-error)=(\w+)$/

/** Pattern for files that no other pattern matches. */
const DEFAULT_PATTERN = 'default'

/** Maximum number of wildcards in a pattern, so that no path makes matching slow. */
const MOST_WILDCARDS = 4

/**
 * Returns the value of Cache-Control (RFC 9111 5.2) for a text such as `1y immutable` or `no-cache`; undefined if a word is neither a
 * duration nor a directive.
 */
export function readCacheControl(text: string): string | undefined {
  const directives: string[] = []
  for (const word of text.split(/[\s,]+/)) {
    const life = secondsOf(word)
    const [, name, value = ''] = TIMED.exec(word) ?? []
    const seconds = name === undefined ? life : (secondsOf(value) ?? (/^\d{1,10}$/.test(value) ? value : undefined))
    if (seconds !== undefined) directives.push(`${name ?? 'max-age'}=${seconds}`)
    else if (PLAIN.test(word)) directives.push(word)
    else return undefined
  }
  return directives.join(', ')
}

function secondsOf(word: string): number | undefined {
  const [, count, unit = ''] = LIFE.exec(word) ?? []
  return count === undefined ? undefined : Number(count) * (SECONDS[unit] as number)
}

/**
 * Compiles a pattern of paths: `*` stands for any part of a name, `**` for any names, `?` for one character, `{a,b}` for one of
 * several. A pattern without a slash is matched with the name of the file, another one with its whole path. Undefined when
 * the pattern is malformed or has more than 4 wildcards.
 */
export function compilePathPattern(pattern: string): RegExp | undefined {
  if (pattern === DEFAULT_PATTERN) return /^/
  if (pattern === '' || (pattern.match(/\*+/g)?.length ?? 0) > MOST_WILDCARDS) return undefined
  let text = ''
  let open = false
  for (const [part] of pattern.matchAll(/\*+|[^*]/gu)) {
    if (part === '*') text += '[^/]*'
    else if (part === '**') text += '.*'
    else if (part.startsWith('*') || (part === '{' && open) || (part === '}' && !open)) return undefined
    else if (part === '?') text += '[^/]'
    else if (part === '{' || part === '}') {
      open = part === '{'
      text += open ? '(?:' : ')'
    } else text += part === ',' && open ? '|' : part.replace(/[\\^$.+?()[\]{}|]/, '\\$&')
  }
  if (open) return undefined
  return new RegExp(pattern.includes('/') ? `^${pattern.startsWith('/') ? '' : '/'}${text}$` : `(?:^|/)${text}$`, 'u')
}

/**
 * Sorts patterns by precedence: whole-path patterns before name patterns, then by the number of characters outside wildcards and braces,
 * longest first; `default` is last.
 */
export function orderPatterns(patterns: Readonly<Record<string, string>>): [pattern: string, value: string][] {
  const rank = (pattern: string): number[] => [
    pattern === DEFAULT_PATTERN ? 1 : 0,
    pattern.includes('/') ? 0 : 1,
    -pattern.replace(/\{[^}]*\}|[*?]/g, '').length
  ]
  return Object.entries(patterns).sort(([a], [b]) => {
    const [one, other] = [rank(a), rank(b)]
    const at = one.findIndex((value, index) => value !== other[index])
    return at === -1 ? (a < b ? -1 : 1) : (one[at] as number) - (other[at] as number)
  })
}
