import { suggest } from '../lib/suggest.js'

/** Methods of other languages, and what CEL calls them. */
const FOREIGN_METHODS: Readonly<Record<string, string>> = {
  includes: 'contains(…)',
  has: "'key' in map",
  get: "map['key']",
  length: 'size()',
  len: 'size()',
  count: 'size()',
  starts_with: 'startsWith(…)',
  hasPrefix: 'startsWith(…)',
  ends_with: 'endsWith(…)',
  hasSuffix: 'endsWith(…)',
  toLowerCase: 'lowerAscii()',
  toLower: 'lowerAscii()',
  toUpperCase: 'upperAscii()',
  toUpper: 'upperAscii()',
  test: 'matches(…)',
  match: 'matches(…)',
  any: 'exists(x, …)',
  some: 'exists(x, …)',
  every: 'all(x, …)',
  find: 'filter(x, …)[0]',
  toString: 'string(…)'
}

/** Functions that are called otherwise elsewhere: as methods of a list, or under another name. */
const FOREIGN_FUNCTIONS: Readonly<Record<string, string>> = {
  sort: 'list.sort() or list.sortBy(x, …)',
  sorted: 'list.sort() or list.sortBy(x, …)',
  sortBy: 'list.sortBy(x, …)',
  orderBy: 'list.sortBy(x, …)',
  'lists.sort': 'list.sort() or list.sortBy(x, …)'
}

/** Methods with a variable and an expression over it, by names that have another meaning here or none. */
const FOREIGN_MACROS: Readonly<Record<string, string>> = {
  sort: 'sortBy(x, …)',
  sorted: 'sortBy(x, …)',
  sort_by: 'sortBy(x, …)',
  orderBy: 'sortBy(x, …)',
  order_by: 'sortBy(x, …)'
}

/** `; did you mean …?` for a function that does not exist, or nothing. */
export function functionHint(name: string, known: Iterable<string>): string {
  if (Object.hasOwn(FOREIGN_FUNCTIONS, name)) return `; did you mean ${FOREIGN_FUNCTIONS[name]}?`
  return methodHint(name, known)
}

/** What was meant by a method that was given a variable and takes none; undefined for a method that is no such name. */
export function macroMeant(name: string): string | undefined {
  return Object.hasOwn(FOREIGN_MACROS, name) ? FOREIGN_MACROS[name] : undefined
}

/** `; …` that names what was probably meant, or nothing. */
export function methodHint(name: string, known: Iterable<string>): string {
  if (Object.hasOwn(FOREIGN_METHODS, name)) return `; write ${FOREIGN_METHODS[name]}`
  const near = suggest(name, known)
  return near === undefined ? '' : `; did you mean ${near}(…)?`
}

/** The documented path that was probably meant: the nearest, else one that ends the same. */
function nearestPath(path: string, paths: Iterable<string>): string | undefined {
  const all = [...paths]
  const root = path.slice(0, path.indexOf('.') + 1)
  const siblings = root === '' ? [] : all.filter((one) => one.startsWith(root))
  const last = path.slice(path.lastIndexOf('.') + 1)
  const endings = (among: readonly string[]) =>
    among.filter((one) => one.endsWith(`.${last}`)).sort((a, b) => a.length - b.length)[0]
  const near = suggest(path, siblings) ?? endings(siblings) ?? endings(all) ?? suggest(path, all)
  if (near !== undefined) return near
  const ending = suggest(last, new Set(all.map((one) => one.slice(one.lastIndexOf('.') + 1))))
  return all.find((one) => one.endsWith(`.${ending}`))
}

/** What actions would publish that are refused by name, so that no other action is suggested for it. */
const UNPUBLISHED = new Set(['owasp_crs_request', 'owasp_crs_response', 'ai_gateway', 'saml'])

/** `; did you mean x?`, or nothing. */
export function pathHint(path: string, paths: Iterable<string>): string {
  const [root = '', , action = ''] = path.split('.')
  if (root === 'actions' && UNPUBLISHED.has(action))
    return `: the action ${action.replaceAll('_', '-')} is not supported`
  const near = nearestPath(path, paths)
  return near === undefined ? '' : `; did you mean ${near}?`
}

const OLD_TEMPLATE: readonly (readonly [RegExp, string])[] = [
  [/^\s*\.(?:ngrok|service)\.geo\.(\w+)/, 'conn.geo.'],
  [/^\s*\.(?:ngrok|service)\.([\w.]+)/, 'conn.']
]

/** What to write in place of `${.ngrok.…}` or `{{ … }}`; undefined when the source is no template of the old kind. */
export function oldTemplateHint(source: string): string | undefined {
  for (const [pattern, prefix] of OLD_TEMPLATE) {
    const match = pattern.exec(source)
    if (match !== null) return `templates that begin with a dot are not supported; write ${prefix}${match[1]}`
  }
  if (source.includes('{{')) return `templates with {{ }} are not supported; write \${…} with an expression`
  return undefined
}

/** Characters that look like a blank, or like nothing, and that the language does not know; text copied from elsewhere has them. */
const INVISIBLE = /[\u0085\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u2069\u3000\ufeff]/
const INVISIBLE_NAMES: Readonly<Record<string, string>> = {
  '\u00a0': 'no-break space',
  '\u00ad': 'soft hyphen',
  '\u200b': 'zero width space',
  '\u200c': 'zero width non-joiner',
  '\u200d': 'zero width joiner',
  '\u200e': 'left-to-right mark',
  '\u200f': 'right-to-left mark',
  '\u2028': 'line separator',
  '\u2029': 'paragraph separator',
  '\u202f': 'narrow no-break space',
  '\u2060': 'word joiner',
  '\u3000': 'ideographic space',
  '\ufeff': 'byte order mark'
}

/** Names the character at `offset` when it is one that nobody sees; undefined when it is another. */
export function invisibleAt(source: string, offset: number): string | undefined {
  const character = source[offset]
  if (character === undefined || !INVISIBLE.test(character)) return undefined
  const code = `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
  const name = INVISIBLE_NAMES[character] ?? 'a blank of Unicode'
  return `there is an invisible character, ${code} (${name}), at character ${offset + 1}; write an ordinary space or nothing`
}
