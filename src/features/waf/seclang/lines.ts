import { type Place, PlaceError } from './rule.js'

/** One directive with its arguments, without their double quotes. */
export interface Directive {
  readonly place: Place
  readonly name: string
  readonly arguments: readonly string[]
}

/** Splits a file in SecLang into directives: a backslash at the end of a line joins the next one, `#` begins a comment line. */
export function readDirectives(file: string, text: string): readonly Directive[] {
  const directives: Directive[] = []
  let joined = ''
  let begun = 0
  for (const [i, raw] of text.split('\n').entries()) {
    const line = raw.trim()
    if (joined === '') {
      if (line === '' || line.startsWith('#')) continue
      begun = i + 1
    } else if (line.startsWith('#')) continue
    if (line.endsWith('\\')) {
      joined += line.slice(0, -1)
      // An empty first part still begins a directive.
      if (joined === '') joined = ' '
      continue
    }
    joined += line
    const place = { file, line: begun }
    if (joined.trim() !== '') directives.push(splitDirective(joined.trim(), place))
    joined = ''
  }
  if (joined.trim() !== '') throw new PlaceError({ file, line: begun }, 'the last line ends with a backslash')
  return directives
}

/** Splits at white space outside of double quotes; `\"` is a double quote inside of them. */
function splitDirective(line: string, place: Place): Directive {
  const words: string[] = []
  let i = 0
  while (i < line.length) {
    if (isSpace(line, i)) {
      i++
      continue
    }
    const quoted = line[i] === '"'
    let word = ''
    if (quoted) i++
    for (; i < line.length; i++) {
      if (line[i] === '\\' && line[i + 1] === '"') {
        word += '"'
        i++
      } else if (quoted ? line[i] === '"' : isSpace(line, i)) break
      else word += line[i]
    }
    if (quoted) {
      if (i >= line.length) throw new PlaceError(place, 'a double quote is not closed')
      i++
      if (i < line.length && !isSpace(line, i))
        throw new PlaceError(place, 'white space is missing after a double quote')
    }
    words.push(word)
  }
  const [name = '', ...rest] = words
  return { place, name, arguments: rest }
}

function isSpace(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit === 0x20 || unit === 0x09 || unit === 0x0d
}

/** An action of a rule: `name` or `name:value`, in lower case and without single quotes. */
export interface ActionWord {
  readonly name: string
  readonly value: string
}

/** Splits a list of actions at commas outside of single quotes; `\'` is a single quote. */
export function readActionWords(text: string, place: Place): readonly ActionWord[] {
  const words: ActionWord[] = []
  let i = 0
  while (i < text.length) {
    let name = ''
    while (i < text.length && text[i] !== ':' && text[i] !== ',') name += text[i++]
    let value = ''
    if (text[i] === ':') {
      i++
      const quoted = text[i] === "'"
      if (quoted) i++
      for (; i < text.length; i++) {
        if (text[i] === '\\' && text[i + 1] === "'") {
          value += "'"
          i++
        } else if (text[i] === "'") {
          // A quote inside of an unquoted value, as in setvar:tx.a='b c', begins a quoted part.
          if (quoted) break
          const end = text.indexOf("'", i + 1)
          if (end < 0) throw new PlaceError(place, 'a single quote in the actions is not closed')
          value += text.slice(i + 1, end)
          i = end
        } else if (!quoted && text[i] === ',') break
        else value += text[i]
      }
      if (quoted) {
        if (i >= text.length) throw new PlaceError(place, 'a single quote in the actions is not closed')
        i++
      }
    }
    while (i < text.length && text[i] !== ',') {
      if (!isSpace(text, i))
        throw new PlaceError(place, `the action ${name.trim()} is followed by "${text[i]}" instead of a comma`)
      i++
    }
    i++
    name = name.trim().toLowerCase()
    if (name !== '') words.push({ name, value: value.trim() })
  }
  return words
}
