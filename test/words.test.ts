import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

/**
 * Violations that `src` still has, by rule. A number may only fall: more violations fail the test, and so does a number that
 * is far above what is left.
 */
const ALLOWED = {
  clause: 0,
  absent: 0,
  shared: 15,
  twice: 299,
  plural: 54
} as const

type Rule = keyof typeof ALLOWED

const MEANING: Readonly<Record<Rule, string>> = {
  clause:
    'a doc comment is a sentence about its subject; it does not begin with Of, What, How, Where, Who, Whose, So or As',
  absent:
    'a default is written as @default, and a special value has a name; no comment begins with Absent or Undefined',
  shared: 'each constant has a comment of its own',
  twice: 'a function xOf is defined once, beside the type of x',
  plural: 'a message says "1 line", "2 lines"'
}

/** Words for which the field has a standard term. They appear in no name and no comment of `src`. */
const REPLACED: Readonly<Record<string, RegExp>> = {
  'header sanitizing': /hygiene/i,
  'request context': /passage/i,
  batch: /parcel/i,
  'protocol handler on a shared port': /side[ -]?door/i,
  'deadline timer': /\bSweeper\b/,
  'caller check': /doorkeeper/i,
  'malformed message': /\bMalformedHead\b/
}

/** Comments name the caller, the owner or the process. */
const IMPRECISE = /\b(nobody|whoever|somebody|anybody|hears? of|told|hears)\b/i

/** Names of code say that it reports, publishes, logs or notifies. */
const SPOKEN = /(?<!['`"\w])#?(?:tell|told|telling[A-Z]\w*|heard|Told|Tell)\b(?!['`"\w])/

interface File {
  readonly file: string
  readonly text: string
  readonly lines: readonly string[]
}

interface Found {
  readonly place: string
  readonly text: string
}

const files: readonly File[] = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort()
  .map((name) => {
    const file = path.join('src', name)
    const text = readFileSync(file, 'utf8')
    return { file, text, lines: text.split('\n') }
  })

const lines = files.flatMap(({ file, lines }) =>
  lines.map((text, index) => ({ file, text, place: `${file}:${index + 1}` }))
)

/** Doc comments with their place and their text on one line. */
function docComments({ file, text }: File): Found[] {
  return [...text.matchAll(/\/\*\*([\s\S]*?)\*\//g)].map((match) => ({
    place: `${file}:${text.slice(0, match.index).split('\n').length}`,
    text: String(match[1])
      .replace(/^\s*\* ?/gm, ' ')
      .replace(/\s+/g, ' ')
      .trim()
  }))
}

/** Constants that follow another one under the same comment, without a comment of their own. */
function sharedComments({ file, lines }: File): Found[] {
  const isConstant = (line: string | undefined) => /^(?:export )?const [A-Z][A-Z\d_]* = .*[^{[(]$/.test(line ?? '')
  return lines.flatMap((line, index) => {
    const documented = /\*\/$|^\/\/ /.test(lines[index - 2] ?? '')
    return documented && isConstant(lines[index - 1]) && isConstant(line)
      ? [{ place: `${file}:${index + 1}`, text: line }]
      : []
  })
}

/** Definitions of functions `xOf` beyond the first one with the same name. */
function repeatedConversions(all: readonly File[]): Found[] {
  const seen = new Map<string, Found[]>()
  for (const { file, lines } of all) {
    for (const [index, line] of lines.entries()) {
      const [, name] = /^(?:export )?(?:async )?(?:function|const) (\w+Of)\b(?= ?[(<]| = \(| = async)/.exec(line) ?? []
      if (name === undefined) continue
      seen.set(name, [...(seen.get(name) ?? []), { place: `${file}:${index + 1}`, text: name }])
    }
  }
  return [...seen.values()].flatMap((definitions) => definitions.slice(1))
}

const COUNTED =
  'bytes|cases|certificates|clients|connections|documents|domains|edges|errors|events|exchanges|fields|files|keys|limits|lines|listeners|' +
  'messages|names|problems|processes|records|requests|routes|rows|rules|servers|sessions|sites|times|tunnels|values|warnings'
/** A number that is followed by a plural whatever it is. A text that looks at 1 has a question mark in its number or noun. */
const PLURAL = new RegExp(`\\$\\{[^}?]+\\} (?:more |further )?(?:${COUNTED})\\b`)

const rules: Readonly<Record<Rule, () => Found[]>> = {
  clause: () =>
    files.flatMap(docComments).filter(({ text }) => /^(?:Of|What|How|Where|Who|Whom|Whose|So|As)\b/.test(text)),
  absent: () => files.flatMap(docComments).filter(({ text }) => /^(?:Absent|Undefined)\b/.test(text)),
  shared: () => files.flatMap(sharedComments),
  twice: () => repeatedConversions(files),
  plural: () => lines.filter(({ text }) => PLURAL.test(codeLine(text)))
}

function codeLine(text: string): string {
  return text.replace(/^\s*(?:\/?\*|\/\/).*|\/\/ .*/, '')
}

/** A line of code without its comment and its texts. */
const codeOf = (text: string) => codeLine(text).replace(/'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")

const commentOf = (text: string) => /^\s*(?:\/?\*|\/\/).*|\/\/ .*/.exec(text)?.[0] ?? ''

for (const rule of Object.keys(ALLOWED) as Rule[]) {
  t.test(MEANING[rule], async (t) => {
    const found = rules[rule]()
    const allowed = ALLOWED[rule]
    t.comment(`${rule}: ${found.length} found, ${allowed} allowed`)
    const shown = found.slice(0, 2_000).map(({ place, text }) => `${place}: ${text.slice(0, 80)}`)
    t.ok(found.length <= allowed, `${found.length} found, ${allowed} allowed`, { found: shown })
    const slack = Math.max(10, Math.floor(allowed / 10))
    t.ok(found.length >= allowed - slack, `lower the allowance of "${rule}" to ${found.length}`)
  })
}

t.test('the rules find what they are for', async (t) => {
  const file = (text: string): File => ({ file: 'x.ts', text, lines: text.split('\n') })
  t.same(
    docComments(file('/** What it is. */\n/**\n * Two\n * lines.\n */')).map(({ text }) => text),
    ['What it is.', 'Two lines.']
  )
  t.equal(sharedComments(file('/** Milliseconds. */\nconst FIRST = 1\nconst SECOND = 2\n')).length, 1)
  t.equal(sharedComments(file('/** Milliseconds. */\nconst FIRST = 1\n/** Bytes. */\nconst SECOND = 2\n')).length, 0)
  t.equal(repeatedConversions([file('function nameOf(x) {}'), file('export const nameOf = (x) => x')]).length, 1)
  t.match('`${count} lines`', PLURAL)
  t.notMatch("`${count} ${count === 1 ? 'line' : 'lines'}`", PLURAL)
})

t.test('the source uses the standard terms', async (t) => {
  t.ok(lines.length > 10_000, 'the source was read')
  for (const [term, word] of Object.entries(REPLACED)) {
    const found = lines.filter(({ file, text }) => word.test(text) || word.test(path.basename(file)))
    t.same([...new Set(found.map(({ place }) => place))], [], `"${term}" is the word`)
  }
})

t.test('comments name who acts', async (t) => {
  const found = lines.filter(({ text }) => IMPRECISE.test(commentOf(text)))
  t.same(
    found.map(({ place }) => place),
    []
  )
})

t.test('names say what code does', async (t) => {
  const found = lines.filter(({ text }) => SPOKEN.test(codeOf(text)))
  t.same(
    found.map(({ place }) => place),
    []
  )
})
