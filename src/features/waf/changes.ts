/** Signs that a transformation changes a text. */
export interface ChangeSigns {
  /** Texts, without letters whose case counts. */
  readonly texts: readonly string[]
  /** Pattern without flags that keep a state; `^` and `$` are also at line breaks. */
  readonly pattern?: RegExp
}

/**
 * Returns the signs of a transformation, by its name in any case: it changes no text without one of them. Undefined for a transformation
 * that changes most texts.
 */
export function changeSigns(name: string): ChangeSigns | undefined {
  return SIGNS.get(name.toLowerCase())
}

const UPPER = /[A-Z]/

const BACKSLASH: ChangeSigns = { texts: ['\\'] }
const NULL: ChangeSigns = { texts: ['\0'] }
const PERCENT: ChangeSigns = { texts: ['%', '+'] }
const COMMENT: ChangeSigns = { texts: ['/*', '*/', '--', '#'] }
/** A path changes at slashes, and if it is a dot. */
const PATH: ChangeSigns = { texts: ['/'], pattern: /^\.$/m }
/** Like `PATH`, and a backslash counts as a slash. */
const PATH_OF_WINDOWS: ChangeSigns = { texts: ['/', '\\'], pattern: /^\.$/m }
/** White space besides the space. */
const WHITE: readonly string[] = ['\t', '\n', '\v', '\f', '\r', '\xa0']

const SIGNS: ReadonlyMap<string, ChangeSigns> = new Map<string, ChangeSigns>([
  ['cmdline', { texts: ['\\', '"', "'", '^', ' ', ',', ';', '\t', '\n', '\r'], pattern: UPPER }],
  ['compresswhitespace', { texts: [...WHITE, '  '] }],
  ['cssdecode', BACKSLASH],
  ['escapeseqdecode', BACKSLASH],
  ['htmlentitydecode', { texts: ['&'] }],
  ['jsdecode', BACKSLASH],
  ['lowercase', { texts: [], pattern: UPPER }],
  ['normalisepath', PATH],
  ['normalisepathwin', PATH_OF_WINDOWS],
  ['normalizepath', PATH],
  ['normalizepathwin', PATH_OF_WINDOWS],
  ['removecomments', COMMENT],
  ['removecommentschar', COMMENT],
  ['removenulls', NULL],
  ['removewhitespace', { texts: [...WHITE, ' '] }],
  ['replacecomments', { texts: ['/*'] }],
  ['replacenulls', NULL],
  ['sqlhexdecode', { texts: ['0x'] }],
  ['uppercase', { texts: [], pattern: /[a-z]/ }],
  ['urldecode', PERCENT],
  ['urldecodeuni', PERCENT],
  ['utf8tounicode', { texts: [], pattern: /[\x80-\xff]/ }]
])
