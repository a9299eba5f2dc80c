import { compileRegex } from '../../../lib/regex.js'

/** Most texts of one pattern. */
const MAX_SAMPLES = 6
/** Text that stands for any characters. */
const FILLER = 'probe'

/** Texts that a pattern of RE2 matches, found by reading it; only those that really match. */
export function samplesOf(pattern: string, ignoreCase: boolean): string[] {
  const compiled = compileRegex(`${ignoreCase ? '(?i)' : ''}${pattern}`)
  if (!compiled.ok) return []
  const texts = new SampleReader(pattern).read()
  const paths = texts.map((text) => (text.startsWith('/') ? text : `/${FILLER}${text}`))
  const further = ignoreCase ? paths.map((path) => path.toUpperCase()) : []
  return [...new Set([...paths, ...further])].filter((path) => compiled.regex.test(path)).slice(0, MAX_SAMPLES)
}

/** Reads a pattern from left to right; each alternative gives texts of its own. */
class SampleReader {
  readonly #pattern: string
  #at = 0

  constructor(pattern: string) {
    this.#pattern = pattern
  }

  read(): string[] {
    return this.#alternatives()
  }

  #alternatives(): string[] {
    const all: string[] = []
    do {
      if (this.#pattern[this.#at] === '|') this.#at++
      all.push(...this.#sequence())
    } while (this.#pattern[this.#at] === '|')
    return all.slice(0, MAX_SAMPLES)
  }

  #sequence(): string[] {
    let texts = ['']
    while (this.#at < this.#pattern.length && !/[|)]/.test(this.#pattern[this.#at] as string)) {
      const choices = this.#repeated(this.#atom())
      texts = texts.flatMap((text) => choices.map((choice) => text + choice)).slice(0, MAX_SAMPLES)
    }
    return texts
  }

  #repeated(choices: readonly string[]): readonly string[] {
    const [quantifier = ''] = /^(?:[*+?]|\{\d*,?\d*\})\??/.exec(this.#pattern.slice(this.#at)) ?? []
    this.#at += quantifier.length
    if (quantifier.startsWith('{'))
      return choices.map((choice) => choice.repeat(Number(/\d+/.exec(quantifier)?.[0] ?? 1)))
    if (quantifier.startsWith('?')) return [...choices, '']
    return quantifier.startsWith('*') && choices[0]?.length !== FILLER.length ? [...choices, ''] : choices
  }

  #atom(): readonly string[] {
    const char = this.#pattern[this.#at++] as string
    if (char === '^' || char === '$') return ['']
    if (char === '.') return /^[*+]/.test(this.#pattern.slice(this.#at)) ? [FILLER] : ['x']
    if (char === '\\') return [escaped(this.#pattern[this.#at++] ?? '')]
    if (char === '[') return [this.#class()]
    if (char !== '(') return [char]
    const [flags = ''] = /^\?(?:P?<\w+>|[a-z-]*:?)/.exec(this.#pattern.slice(this.#at)) ?? []
    this.#at += flags.length
    const inner = this.#alternatives()
    this.#at++
    return inner
  }

  #class(): string {
    const end = /^\^?\]?(?:\\.|[^\]\\])*\]/s.exec(this.#pattern.slice(this.#at))?.[0].length ?? 1
    const text = this.#pattern.slice(this.#at, this.#at + end - 1)
    this.#at += end
    if (text.startsWith('^')) return [...'xq7-'].find((char) => !text.includes(char)) ?? 'k'
    return text.startsWith('\\') ? escaped(text[1] as string) : (text[0] ?? 'x')
  }
}

function escaped(char: string): string {
  const classes: Readonly<Record<string, string>> = {
    d: '7',
    w: 'w',
    s: '%20',
    D: 'x',
    W: '-',
    S: 'x',
    b: '',
    A: '',
    z: ''
  }
  return classes[char] ?? char
}
