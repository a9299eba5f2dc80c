import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { checkFiles } from '../../src/cli/check-files.js'
import { runProgram } from '../../src/cli/program.js'

const good = 'on_http_request:\n  - actions:\n      - type: deny\n'
const bad =
  "on_http_request:\n  - expressions:\n      - req.methd == 'GET'\n    actions:\n      - type: denny\n      - type: forward-internal\n        config: {url: https://x.test}\n"

/** Checks files as the command does and hands back what it wrote. */
async function check(
  files: readonly string[],
  setup: { json?: boolean; input?: string; tty?: boolean; environment?: Record<string, string>; columns?: number } = {}
) {
  let written = ''
  const out = {
    write: (text: string) => {
      written += text
    },
    isTTY: setup.tty === true,
    columns: setup.columns ?? 100
  }
  const valid = await checkFiles(files, {
    json: setup.json === true,
    input: Readable.from([Buffer.from(setup.input ?? '')]),
    out,
    environment: setup.environment ?? {}
  })
  return { valid, written, lines: written.split('\n').slice(0, -1) }
}

t.test('a valid document: true, one line of summary', async (t) => {
  const file = join(t.testdir({ 'good.yaml': good }), 'good.yaml')
  t.same(await check([file]), {
    valid: true,
    written: '1 file: 1 valid (0 errors, 0 warnings)\n',
    lines: ['1 file: 1 valid (0 errors, 0 warnings)']
  })
})

t.test('each problem is one line with its place; the summary counts', async (t) => {
  const folder = t.testdir({ 'good.yaml': good, 'bad.yaml': bad })
  const { valid, lines } = await check([join(folder, 'good.yaml'), join(folder, 'bad.yaml')])
  const file = join(folder, 'bad.yaml')
  t.equal(valid, false)
  t.equal(lines.length, 4)
  t.match(lines[0], `${file}:3:9: error EXPRESSION_UNKNOWN: `)
  t.match(lines[0], /\(on_http_request\[0\]\.expressions\[0\]\)$/)
  t.equal(
    lines[1],
    `${file}:5:15: error ACTION_UNKNOWN: there is no action "denny"; did you mean "deny"? (on_http_request[0].actions[0].type)`
  )
  t.match(lines[2], `${file}:7:23: warning NOT_INTERNAL: `)
  t.equal(lines[3], '2 files: 1 valid, 1 with errors (2 errors, 1 warning)')
})

t.test('a literal that the strict form of paths never has is an error where the rule denies', async (t) => {
  const text = (type: string) =>
    `on_http_request: [{ expressions: ["req.url.path == '/a//b'"], actions: [{ type: ${type} }] }]`
  const folder = t.testdir({ 'deny.yaml': text('deny'), 'log.yaml': text('log') })
  t.match(
    (await check([join(folder, 'deny.yaml')])).lines[0],
    /error LITERAL_NEVER_EQUAL: .* where path_form is strict, as by default: .*; write '\/a\/b'/
  )
  t.match((await check([join(folder, 'log.yaml')])).lines[0], /warning LITERAL_NEVER_EQUAL: /)
})

t.test('a document that says nothing is an error, one that says "no rules" is none', async (t) => {
  const folder = t.testdir({ 'empty.yaml': '', 'none.yaml': 'on_http_request: []\n' })
  const { valid, lines } = await check([join(folder, 'empty.yaml'), join(folder, 'none.yaml')])
  t.equal(valid, false)
  t.match(lines[0], `${join(folder, 'empty.yaml')}:1:1: error DOCUMENT_EMPTY: `)
  t.equal(lines[1], '2 files: 1 valid, 1 with errors (1 error, 0 warnings)')
})

t.test('--json: one object for each file and line, and nothing else', async (t) => {
  const folder = t.testdir({ 'good.yaml': good, 'bad.yaml': bad })
  const files = [join(folder, 'good.yaml'), join(folder, 'bad.yaml'), join(folder, 'none.yaml')]
  const { valid, lines } = await check(files, { json: true })
  t.equal(valid, false)
  const [first, second, third, ...rest] = lines.map((line) => JSON.parse(line))
  t.same(rest, [])
  t.same(first, { file: files[0], ok: true, errors: [], warnings: [] })
  t.equal(second.ok, false)
  t.same(
    second.errors.map((error: object) => Object.keys(error)),
    Array(2).fill(['line', 'column', 'path', 'code', 'message'])
  )
  t.match(second.errors[1], { line: 5, column: 15, path: 'on_http_request[0].actions[0].type', code: 'ACTION_UNKNOWN' })
  t.match(second.warnings, [{ code: 'NOT_INTERNAL' }])
  t.match(third, {
    file: files[2],
    ok: false,
    errors: [{ line: 1, column: 1, path: '', code: 'FILE_UNREADABLE', message: /there is no such file/ }]
  })
})

t.test('files that are no text', async (t) => {
  const folder = t.testdir({ 'latin1.yaml': Buffer.from('on_http_request: # caf\xe9\n', 'latin1'), folder: {} })
  const latin = await check([join(folder, 'latin1.yaml')])
  t.match(latin.lines[0], /:1:1: error FILE_UNREADABLE: .*no UTF-8 text/)
  const directory = await check([join(folder, 'folder')])
  t.match(directory.lines[0], /FILE_UNREADABLE: .*it is a folder/)
})

t.test('on a terminal the place in the text is shown, with colours unless NO_COLOR is set', async (t) => {
  const file = join(t.testdir({ 'bad.yaml': bad }), 'bad.yaml')
  const plain = await check([file], { tty: true, environment: { NO_COLOR: '1' } })
  t.notMatch(plain.written, '\u001b')
  t.match(plain.written, "\n     3 |       - req.methd == 'GET'\n       |         ^^^^^^^^^\n")
  t.match(plain.written, '\n     5 |       - type: denny\n       |               ^^^^^\n')
  t.match((await check([file], { tty: true })).written, '\u001b[31m^^^^^\u001b[0m')
  t.notMatch((await check([file], { tty: true, environment: { TERM: 'dumb' } })).written, '\u001b')
  t.notMatch((await check([file])).written, '^^^', 'no excerpts in a pipe')
})

t.test('a terminal never gets control characters of a document, and long lines are cut around the place', async (t) => {
  const folder = t.testdir({
    'escape.yaml': '"\\e[31mred": []\n"\u001b[2J": []\n',
    'long.yaml': `on_http_request: [{actions: [{type: deny}], name: ${'x'.repeat(500)}, nam: 1, more: ${'y'.repeat(500)}}]\n`
  })
  const escaped = await check([join(folder, 'escape.yaml')], { tty: true, environment: { NO_COLOR: '1' } })
  t.notMatch(escaped.written, '\u001b')
  t.match(escaped.written, /PHASE_UNKNOWN/)
  const long = await check([join(folder, 'long.yaml')], { tty: true, environment: { NO_COLOR: '1' }, columns: 80 })
  const [, source, carets] = long.lines
  t.ok((source as string).length <= 80)
  t.equal(source?.slice(carets?.indexOf('^'), (carets?.lastIndexOf('^') ?? 0) + 1), 'nam')
})

t.test('the command: exit codes, standard input, help', async (t) => {
  const folder = t.testdir({ 'good.yaml': good, 'bad.yaml': bad })
  t.teardown(() => {
    process.exitCode = 0
  })
  const run = async (...words: string[]) => {
    const written: string[] = []
    const capture = (text: string | Uint8Array) => {
      written.push(String(text))
      return true
    }
    const restore = [
      t.intercept(process.stdout, 'write', { value: capture }),
      t.intercept(process.stderr, 'write', { value: capture })
    ]
    process.exitCode = 0
    const code = await runProgram(words)
    for (const calls of restore) calls.restore()
    process.exitCode = 0
    return { code, output: written.join('') }
  }
  t.equal((await run('check', join(folder, 'good.yaml'))).code, 0)
  t.equal((await run('check', join(folder, 'good.yaml'), join(folder, 'bad.yaml'))).code, 1)
  t.equal((await run('check')).code, 2, 'no file is a mistake of the command line')
  t.match((await run('check', '--help')).output, /sluice check policy.yaml[\s\S]*Exit code 0/)
  const schema = await run('schema')
  t.match(JSON.parse(schema.output), {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Sluice traffic policy'
  })
  t.match(JSON.parse((await run('schema', 'options')).output), {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object'
  })
  t.equal((await run('schema', 'nothing')).code, 2)
})

t.test('"-" reads standard input', async (t) => {
  const { lines } = await check(['-'], { json: true, input: 'inbound: []\n' })
  t.match(JSON.parse(lines[0] ?? ''), {
    file: '-',
    ok: true,
    warnings: [{ code: 'LEGACY_PHASE', line: 1, column: 1 }]
  })
})
