import t from 'tap'
import { runCommand } from '../cli/command.js'
import { optionEntries } from './product.js'
import { difference, jsonLines, sameAsRecorded, withoutChance } from './recorded.js'
import * as source from './source.js'

/** Commands, their help and exit codes, and the options. Recorded again with SLUICE_RECORD=1 (see `recorded.ts`). */

const cwd = t.testdir({
  'good.yaml': 'on_http_request: []\n',
  'bad.yaml': 'on_http_request:\n  - actions:\n      - type: denny\n',
  'options.yaml': 'lisen: 127.0.0.1:0\n'
})

t.test('the difference that a test prints names lines, old and new', async (t) => {
  t.equal(difference('a\nb\nc', 'a\nc\nd'), '-2: b\n+3: d')
  t.equal(difference('a\na', 'a'), '-2: a')
  t.equal(difference('a\nb', 'b\na'), 'the same lines stand in another order')
  t.equal(difference('a', 'a'), '')
})

t.test('what is random in two runs is made the same, and nothing else', async (t) => {
  const first = `ed_${'a'.repeat(27)}`
  const other = `ed_${'b'.repeat(27)}`
  const one = withoutChance('/tmp/one')
  t.equal(one(`${first} ${other} ${first}`), '<id 1> <id 2> <id 1>')
  t.equal(one('/tmp/one/data 2026-01-02T03:04:05.678Z 127.0.0.1:4040'), '<folder>/data <time> 127.0.0.1:<port>')
  const kept = '429 RATE_LIMITED sluice_tcp_connection_duration_seconds {"status":200} https://example.com/a?b=c'
  t.equal(one(kept), kept)
})

t.test('the help of the program and of each command', async (t) => {
  const helps = new Map<string, string>()
  await help([], helps)
  const lines = [...helps].sort().flatMap(([words, text]) => [`## ${words}`, '', ...text.trimEnd().split('\n'), ''])
  await sameAsRecorded(t, 'help', lines)
})

/** Collects the help of a command and of those below it. */
async function help(words: readonly string[], helps: Map<string, string>): Promise<void> {
  const { code, out, err } = await runCommand(t, [...words, '--help'], { cwd })
  if (code !== 0) throw new Error(`${words.join(' ')} --help ends with ${code}: ${err}`)
  helps.set(['sluice', ...words].join(' '), out)
  const listed = /^Commands:\n((?: {2}.*\n?)*)/m.exec(out)?.[1] ?? ''
  const names = [...listed.matchAll(/^ {2}([a-z]\S*)/gm)].map(([, name]) => String(name))
  await Promise.all(names.filter((name) => name !== 'help').map((name) => help([...words, name], helps)))
}

t.test('options with their variables, kinds, defaults and descriptions', async (t) => {
  const { out } = await runCommand(t, ['schema', 'options'], { cwd })
  const properties = new Map<string, Record<string, unknown>>()
  collect(JSON.parse(out) as Node, '', properties)
  const entries = optionEntries()
  t.same(entries.map(({ path }) => path).sort(), [...properties.keys()].sort(), 'both name the same options')
  const lines = entries.flatMap(({ path, variable }) => {
    const { description, ...schema } = properties.get(path) ?? {}
    return [`${path} ${variable}`, `  ${JSON.stringify(schema)}`, `  ${String(description)}`]
  })
  await sameAsRecorded(t, 'options', lines)
  await sameAsRecorded(t, 'options-schema', jsonLines(JSON.parse(out)))
})

interface Node {
  readonly properties?: Readonly<Record<string, Node>>
}

function collect({ properties = {} }: Node, path: string, found: Map<string, Record<string, unknown>>): void {
  for (const [name, child] of Object.entries(properties)) {
    const at = path === '' ? name : `${path}.${name}`
    if (child.properties === undefined) found.set(at, child as Record<string, unknown>)
    else collect(child, at, found)
  }
}

t.test('variables of the environment that are no options', async (t) => {
  const named = new Set<string>()
  await source.everyNode((node) => {
    for (const [name] of (source.textOf(node) ?? '').matchAll(/\bSLUICE_[A-Z_]*[A-Z]\b/g)) named.add(name)
  })
  const options = new Set(optionEntries().map(({ variable }) => variable))
  await sameAsRecorded(t, 'variables', [...named].filter((name) => !options.has(name)).sort())
})

t.test('what commands print and end with', async (t) => {
  const lines: string[] = []
  const cases = [
    ['check', 'good.yaml'],
    ['check', 'bad.yaml'],
    ['check', 'gone.yaml'],
    ['check'],
    ['chek'],
    ['schema', 'nothing'],
    ['start', '--config', 'options.yaml'],
    ['start', '--config', 'gone.yaml'],
    ['start', '--listen', 'nowhere'],
    ['start', '--nonsense'],
    ['export', '--data', 'gone'],
    ['import', 'gone.yaml', '--data', 'gone'],
    ['backup', 'copy.db', '--data', 'gone'],
    ['restore', 'gone.db', '--data', 'gone'],
    ['api-key', 'show', '--data', 'gone'],
    ['agent']
  ]
  for (const words of cases) {
    const { code, out, err } = await runCommand(t, words, { cwd })
    const text = [out, err]
      .filter((part) => part !== '')
      .join('\n')
      .replaceAll(cwd, '<folder>')
      .trimEnd()
    lines.push(
      `$ sluice ${words.join(' ')}`,
      ...text.split('\n').map((line) => `  ${line}`.trimEnd()),
      `  exit ${code}`
    )
  }
  await sameAsRecorded(t, 'exit-codes', lines)
})
