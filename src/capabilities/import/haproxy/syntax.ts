import { syntaxError } from '../errors.js'
import type { SourcePosition } from '../model.js'

/** A line of a section, split into its words. */
export interface HaproxyLine {
  readonly words: readonly string[]
  readonly at: SourcePosition
}

export interface HaproxySection {
  readonly kind: string
  readonly name: string
  /** Name of the `defaults` section behind `from`. */
  readonly from?: string
  readonly lines: readonly HaproxyLine[]
  readonly at: SourcePosition
}

const SECTIONS = [
  'global',
  'defaults',
  'frontend',
  'backend',
  'listen',
  'userlist',
  'resolvers',
  'peers',
  'cache',
  'mailers',
  'ring',
  'program',
  'http-errors',
  'log-forward',
  'fcgi-app',
  'crt-store'
]

/** Words of a line as HAProxy splits it (configuration manual, section 2.2). `${NAME}` stays as it is. */
function wordsOf(text: string, at: SourcePosition): string[] {
  const words: string[] = []
  let word: string | undefined
  for (let index = 0; index < text.length; index++) {
    const char = text[index] as string
    if (/\s/.test(char)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (char === '#') break
    else if (char === '"' || char === "'") {
      const start = index
      word ??= ''
      for (index++; text[index] !== char; index++) {
        if (index >= text.length)
          throw syntaxError(`a text that begins with ${char} does not end`, { ...at, column: start + 1 })
        if (char === '"' && text[index] === '\\') index++
        word += text[index] ?? ''
      }
    } else if (char === '\\') {
      index++
      if (index >= text.length) throw syntaxError('a backslash ends the line', { ...at, column: index })
      const escaped = text[index] as string
      word = (word ?? '') + (/[\s\\"'#]/.test(escaped) ? escaped : `\\${escaped}`)
    } else word = (word ?? '') + char
  }
  if (word !== undefined) words.push(word)
  return words
}

/** Reads the text of a file. Throws IMPORT_SYNTAX. */
export function parseHaproxy(text: string, file: string): HaproxySection[] {
  const sections: (Omit<HaproxySection, 'lines'> & { lines: HaproxyLine[] })[] = []
  for (const [index, written] of text
    .replace(/^\ufeff/, '')
    .split('\n')
    .entries()) {
    const column = (/\S/.exec(written)?.index ?? 0) + 1
    const at: SourcePosition = { file, line: index + 1, column }
    const words = wordsOf(written, at)
    const [first, name = ''] = words
    if (first === undefined) continue
    // A line of a section is usually indented; the name of a section is none of its keywords.
    if (SECTIONS.includes(first) && !(first === 'cache' && words.length > 2)) {
      const from = words[2] === 'from' ? words[3] : name === 'from' ? words[2] : undefined
      sections.push({
        kind: first,
        name: name === 'from' ? '' : name,
        ...(from === undefined ? {} : { from }),
        lines: [],
        at
      })
      continue
    }
    const section = sections.at(-1)
    if (section === undefined) throw syntaxError(`"${first}" stands in no section`, at)
    section.lines.push({ words, at })
  }
  return sections
}

export const haproxyText = (words: readonly string[]) =>
  words.map((word) => (word === '' || /[\s#]/.test(word) ? JSON.stringify(word) : word)).join(' ')
