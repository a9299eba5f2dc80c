/** A path below the folder that is served. */
export interface FilePath {
  /** Decoded names with `/` between; empty for the folder itself. */
  readonly path: string
  /** The target ends with a slash. */
  readonly isFolder: boolean
}

/** Names that need no decoding and hide nothing. */
const PLAIN = /^(?:\/[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)+\/?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: no name of a file that is served has them.
const REFUSED = /[\x00-\x1f\x7f/\\]/
/** The one hidden folder that is served (RFC 8615). */
const WELL_KNOWN = '.well-known'

/**
 * Reads the path of a request target, without its query. Undefined when nothing that is served can have it: a dot segment, an
 * empty or hidden name, a slash, backslash or control character inside a name, in any encoding, or no UTF-8.
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

/** True for `.`, `..` and the names that begin with a dot. */
export function isHidden(name: string): boolean {
  return name.startsWith('.')
}

/** True when a path below the folder has a hidden name other than `.well-known` at its beginning. */
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
