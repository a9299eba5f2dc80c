/** Path below the served folder. */
export interface FilePath {
  /** Decoded names separated by `/`; empty for the folder itself. */
  readonly path: string
  /** True if the target ends with a slash. */
  readonly isFolder: boolean
}

/** Names without escapes that are not hidden. */
const PLAIN = /^(?:\/[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)+\/?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: no name of a file that is served has them.
const REFUSED = /[\x00-\x1f\x7f/\\]/
/** The only hidden folder that is served (RFC 8615). */
const WELL_KNOWN = '.well-known'

/**
 * Parses the path of a request target without query. Undefined if no served file can have it: dot segments, empty or hidden names, an
 * encoded slash, backslash or control character, or invalid UTF-8.
 */
export function readFilePath(target: string): FilePath | undefined {
  const isFolder = target.endsWith('/')
  if (target === '/') return { path: '', isFolder }
  if (!target.startsWith('/')) return undefined
  const inner = target.slice(1, isFolder ? -1 : undefined)
  if (PLAIN.test(target)) return { path: inner, isFolder }
  const names = inner.split('/')
  for (const [index, name] of names.entries()) {
    const decoded = decode(name)
    if (decoded === undefined || decoded === '' || REFUSED.test(decoded)) return undefined
    if (isHidden(decoded) && (index > 0 || decoded !== WELL_KNOWN)) return undefined
    names[index] = decoded
  }
  return { path: names.join('/'), isFolder }
}

/** Returns true for `.`, `..` and names that start with a dot. */
export function isHidden(name: string): boolean {
  return name.startsWith('.')
}

/** Returns true if the path contains a hidden name, other than a leading `.well-known`. */
export function hasHidden(path: string): boolean {
  return path.split('/').some((name, index) => isHidden(name) && (index > 0 || name !== WELL_KNOWN))
}

function decode(name: string): string | undefined {
  try {
    return decodeURIComponent(name)
  } catch {
    return undefined
  }
}
