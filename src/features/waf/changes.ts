/** Returns false if a transformation changes no value of a text, which `breaks` line breaks join. */
export type ChangeTest = (text: string, breaks: number) => boolean

/**
 * Returns a quick test of a transformation, by its name in any case. It may be wrong with true only. It holds for joined values, too:
 * what changes a value is also found in the joined text. Undefined for a transformation that changes most texts.
 */
export function changeTest(name: string): ChangeTest | undefined {
  return TESTS.get(name.toLowerCase())
}

/** Finds a part of a text. */
const has =
  (part: string): ChangeTest =>
  (text) =>
    text.includes(part)

/** Finds a character of a class without flags that keep a state. */
const hasAny =
  (characters: RegExp): ChangeTest =>
  (text) =>
    characters.test(text)

const hasPercent: ChangeTest = (text) => text.includes('%') || text.includes('+')
const hasBackslash = has('\\')
const hasNull = has('\0')

/** Finds a character of a class, or a line break that joins no values. */
const hasAnyOrBreak =
  (characters: RegExp): ChangeTest =>
  (text, breaks) => {
    if (characters.test(text)) return true
    let left = breaks
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) if (left-- === 0) return true
    return false
  }

const hasCommentMark: ChangeTest = (text) =>
  text.includes('/*') || text.includes('*/') || text.includes('--') || text.includes('#')

/** A path changes at slashes, and if it is a dot. */
const isPath: ChangeTest = (text) => text.includes('/') || DOT.test(text)
const DOT = /(?:^|\n)\.(?:\n|$)/

const TESTS: ReadonlyMap<string, ChangeTest> = new Map<string, ChangeTest>([
  ['cmdline', hasAnyOrBreak(/[A-Z\\"'^ ,;\t\r]/)],
  ['compresswhitespace', hasAnyOrBreak(/[\t\v-\r\xa0]| {2}/)],
  ['cssdecode', hasBackslash],
  ['escapeseqdecode', hasBackslash],
  ['htmlentitydecode', has('&')],
  ['jsdecode', hasBackslash],
  ['lowercase', hasAny(/[A-Z]/)],
  ['normalisepath', isPath],
  ['normalisepathwin', (text, breaks) => hasBackslash(text, breaks) || isPath(text, breaks)],
  ['normalizepath', isPath],
  ['normalizepathwin', (text, breaks) => hasBackslash(text, breaks) || isPath(text, breaks)],
  ['removecomments', hasCommentMark],
  ['removecommentschar', hasCommentMark],
  ['removenulls', hasNull],
  ['removewhitespace', hasAnyOrBreak(/[\t\v-\r \xa0]/)],
  ['replacecomments', has('/*')],
  ['replacenulls', hasNull],
  ['sqlhexdecode', hasAny(/0[xX]/)],
  ['uppercase', hasAny(/[a-z]/)],
  ['urldecode', hasPercent],
  ['urldecodeuni', hasPercent],
  ['utf8tounicode', hasAny(/[\x80-\xff]/)]
])
