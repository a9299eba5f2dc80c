import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { packageRoot } from '../../../src/lib/files.js'
import { shellWord } from '../../../src/lib/shell-word.js'

const page = (name: string) => import(join(packageRoot(), 'src', 'api', 'dashboard', 'pages', name))

/** All characters of a token (RFC 9110 5.6.2). */
const TOKEN = "!#$%&'*+-.^_`|~0189azAZ"
/** All characters that a field value may hold, as a transport decodes them, and some beyond. */
const VALUE = `\t${characters(0x20, 0x7e)}${characters(0x80, 0xff)}\u202e\u2028 é 漢 🦊`
const EVERY = `${characters(1, 0x24f)}\u2028\u2029\u202a\u202e\u2066\u2069\ufeff 漢 🦊 \n`
const ATTACKS = [
  'x-token`touch$IFS$9PWNED`',
  'x-token$(id)',
  "x-token'id'",
  'token"',
  'x-token|id',
  'x-token&',
  '!!x-token',
  '-x-token'
]

function characters(from: number, to: number): string {
  return Array.from({ length: to - from + 1 }, (_, i) => String.fromCharCode(from + i)).join('')
}

/** The words of a command as `sh` passes them to the program that is called. */
function wordsOf(command: string, variables: Readonly<Record<string, string>> = {}) {
  const script = `curl() { printf '%s\\0' "$@"; printf 'stdin:'; if [ -p /dev/stdin ]; then cat; fi; }\n${command}`
  const output = execFileSync('sh', ['-c', script], { env: { ...process.env, ...variables } }).toString()
  const [words = '', input] = [output.slice(0, output.lastIndexOf('\0stdin:')), output.split('\0stdin:').at(-1)]
  return { words: words.split('\0'), input }
}

function exchangeWith(headers: readonly string[], body: object | null = null, url = 'http://shop.test/cart') {
  const connection = { server: { ip: '127.0.0.1', port: 80 } }
  return { method: 'POST', url, http_version: '1.1', connection, request: { headers, body } }
}

/** Controls that a terminal obeys while they are pasted; within quotes a line feed does nothing. */
function obeyed(text: string): RegExpMatchArray | null {
  return text.match(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu)?.filter((one) => one !== '\n')[0] as never
}

t.test('a word of a shell is what it was made of', async (t) => {
  const { shell } = await page('api.js')
  for (const text of [
    EVERY,
    TOKEN,
    "it's",
    '',
    '\n',
    'a\n\n',
    '\t',
    '\u001b[201~\nid\n',
    '%s%n',
    '\\',
    '-n',
    '~root'
  ]) {
    for (const quote of [shell, shellWord] as ((text: string) => string)[]) {
      t.notOk(obeyed(quote(text)), 'a terminal obeys nothing of it')
      t.strictSame(wordsOf(`curl ${quote(text)}`).words, [text])
    }
  }
  t.equal(shellWord('/srv/a-b.yaml'), '/srv/a-b.yaml')
  t.equal(shellWord('my file'), "'my file'")
  t.equal(shellWord('a\0b'), `'a'"$(printf '')"'b'`)
})

t.test('a copied command sends what was recorded, and runs nothing of it', async (t) => {
  const { curlOfExchange } = await page('exchange-text.js')
  const names = [...ATTACKS, ...Array.from(TOKEN, (character) => `x${character}token`), 'PATH', 'AWS-Secret-Access-Key']
  for (const name of names) {
    const headers = [name, `Bearer [redacted]${VALUE}`, `p${name}`, VALUE, name, '[redacted]']
    const command = curlOfExchange(exchangeWith(headers))
    const variable = `SECRET_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`
    const { words } = wordsOf(command, { [variable]: 'sec"r$et `' })
    t.strictSame(
      words.filter((_, i) => words[i - 1] === '-H'),
      [`${name}: Bearer sec"r$et \`${VALUE}`, `p${name}: ${VALUE}`, `${name}: sec"r$et \``]
    )
    t.notOk(obeyed(command))
  }
})

t.test('a body and a URL are sent as they came', async (t) => {
  const { curlOfExchange } = await page('exchange-text.js')
  for (const text of ['{"amount":7}', "it's\n@file", EVERY, '\0', '\u001b[201~\nid\n']) {
    const command = curlOfExchange(exchangeWith([], { text, whole: true }))
    const { words, input } = wordsOf(command)
    const sent = words.includes('--data-binary') ? input : words[words.indexOf('--data-raw') + 1]
    t.equal(sent, text)
    t.notOk(obeyed(command))
  }
  const url = "http://shop.test/[1-9999]/{a,b}/../x?q='$(id)`id`&a=1;id"
  const { words } = wordsOf(curlOfExchange(exchangeWith([], null, url)))
  t.equal(words.at(-1), url)
  t.ok(words.includes('--globoff') && words.includes('--path-as-is'), 'curl makes no other URL of it')
  t.notOk(wordsOf(curlOfExchange(exchangeWith([]))).words.includes('--globoff'))
})

t.test('a test made of an exchange holds what was recorded', async (t) => {
  const { caseOf, withCase } = await page('test-case.js')
  const text = `${characters(0, 0x24f)}\u2028\u202e\ufeff\uffff 🦊 \ud800: - #`
  const names = [TOKEN, ...ATTACKS, '__proto__', 'constructor', 'true', 'null', '1', '- a', '# a']
  const by = { rule: text, action: 'deny' }
  const exchange = {
    ...exchangeWith(
      names.flatMap((name) => [name, VALUE]),
      { text, whole: true }
    ),
    ...{ at: '2026-01-31T12:00:00.000Z', client_ip: '203.0.113.9', upstream: null },
    ...{ decision: { outcome: 'answered', status: 403, code: null, by } }
  }
  for (const before of [0, 3]) {
    const made = caseOf(exchange, before, text)
    for (const document of [`cases:\n${made}`, withCase('cases:\n  - name: first\n', made)]) {
      const one = parse(document).cases.at(-1)
      const last = before === 0 ? one : one.steps.at(-1)
      t.equal(one.name, text)
      t.equal(last.request.body, text)
      t.equal(last.expect.rule, text)
      t.strictSame(
        Object.entries(last.request.headers).sort(),
        [...new Set(names.map((name) => name.toLowerCase()))].map((name) => [name, VALUE]).sort()
      )
    }
    t.notOk(obeyed(made))
  }
})
