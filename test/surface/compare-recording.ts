import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Sqlite from 'libsql'
import type { FakeProvider } from '../features/login/fake-provider.js'
import type { Answer, Build, Serving } from './build.js'
import { api, policyOf, type Recording, traffic } from './compare-requests.js'

const PASSPHRASE = { SLUICE_PASSPHRASE: 'a passphrase for copies' }
const COMMANDS = [
  'start',
  'check',
  'schema',
  'api-key',
  'domains',
  'agent',
  'export',
  'import',
  'backup',
  'restore',
  'seal'
]
/** A line that a slow machine makes. */
const OF_LOAD = 'a step of the stop takes too long; going on without it'
const HOME = { host: 'home.example.com', accept: 'text/html' }
/** Tables whose rows are the same after another process has opened the store. */
const LASTING = ['records', 'references', 'claims', 'ended_sessions', 'deliveries', 'outbox', 'revisions', 'changes']

/** What both builds talk to: an upstream that answers with what it got, and an identity provider. */
export interface Surroundings {
  readonly upstream: string
  readonly provider: FakeProvider
}

export async function echo(): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method, url, rawHeaders } = request
      const headers = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []))
      response.setHeader('content-type', 'text/plain')
      response.end([`${method} ${url}`, ...headers, '', Buffer.concat(chunks).toString(), '.'.repeat(2_000)].join('\n'))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/** A folder with all that a start reads, and a start on it. */
async function startIn(build: Build, folder: string, { upstream }: Surroundings): Promise<Serving> {
  const words = ['--upstream', upstream, '--policy', 'policy.yaml', '--agents', '127.0.0.1:0']
  return await build.start(folder, words, { SLUICE_OUTBOUND_ALLOW_PRIVATE: 'on', SLUICE_LIMITER_BUDGET: '64MiB' })
}

/** Runs the whole series with one build on a folder of its own; sessions of logins are left in `cookies`. */
export async function record(
  build: Build,
  folder: string,
  around: Surroundings,
  cookies: string[]
): Promise<Recording> {
  const found: Recording = new Map()
  await mkdir(folder)
  await writeFile(join(folder, 'policy.yaml'), policyOf(around.provider.url))
  await commands(build, folder, found)
  const serving = await startIn(build, folder, around)
  const events = join(folder, 'data', 'events', 'all.jsonl')
  try {
    await traffic(serving, found)
    await api(serving, found, { events })
    for (const user of ['stays', 'leaves']) {
      const cookie = await login(serving, around.provider)
      found.set(`login of who ${user}`, (await visit(serving, cookie)).text)
      cookies.push(cookie)
    }
    found.set(
      'logout',
      String(
        (
          await serving.send('/.sluice/logout', {
            headers: { ...HOME, 'sec-fetch-site': 'same-origin', cookie: cookies[1] ?? '' }
          })
        ).status
      )
    )
    const { text } = await serving.call('/metrics')
    found.set(
      'metrics',
      text
        .split('\n')
        .filter((line) => line.startsWith('#'))
        .join('\n')
    )
    const values = text
      .split('\n')
      .filter((line) => /^sluice_(requests|failures|policy|rate_limit|restrictions)/.test(line))
    found.set(
      'values of metrics',
      values
        .filter((line) => !/duration|seconds|in_flight/.test(line))
        .sort()
        .join('\n')
    )
  } finally {
    await serving.stop()
  }
  const lines = serving.launched.lines
  found.set(
    'access log',
    lines
      .filter(({ msg }) => msg === 'exchange')
      .map((line) => fieldsOf(line))
      .join('\n')
  )
  found.set(
    'log',
    lines
      .filter(({ msg }) => msg !== 'exchange' && msg !== OF_LOAD)
      .map((line) => fieldsOf(line))
      .sort()
      .join('\n')
  )
  found.set('standard error', serving.launched.err)
  found.set('events', await eventsOf(events))
  found.set('files', (await readdir(join(folder, 'data'), { recursive: true })).sort().join('\n'))
  found.set('rows of the store', rows(folder, [...LASTING, 'leases']))
  return found
}

async function commands(build: Build, folder: string, found: Recording): Promise<void> {
  await writeFile(
    join(folder, 'wrong.yaml'),
    'on_http_request:\n  - actions:\n      - type: denny\n  - expresions: []\n'
  )
  const helps = COMMANDS.map((name) => [name, '--help'])
  const others = [
    'schema policy',
    'schema options',
    'check policy.yaml',
    'check wrong.yaml',
    'check gone.yaml',
    'nothing'
  ]
  for (const words of [['--help'], ...helps, ...others.map((line) => line.split(' ')), ['start', '--listen', 'x']]) {
    const { code, out, err } = await build.run(words, folder)
    found.set(`sluice ${words.join(' ')}`, `${out}${err}\nexit ${code}`)
  }
}

/** Goes through a login as a browser does; the cookies of the session. */
async function login(serving: Serving, provider: FakeProvider): Promise<string> {
  const begun = await serving.send('/login', { headers: HOME })
  const at = String(begun.headers.location)
  if (!at.startsWith(provider.url)) throw new Error(`no login: ${begun.status} ${at} ${begun.text}`)
  const granted = await fetch(at, { redirect: 'manual' })
  const back = new URL(String(granted.headers.get('location')))
  const ended = await serving.send(back.pathname + back.search, { headers: { ...HOME, cookie: jar(begun) } })
  return jar(ended)
}

/** What an answer sets, as the client sends it back. */
function jar({ headers }: Answer): string {
  const pairs = [headers['set-cookie'] ?? []].flat().map((cookie) => cookie.split(';')[0] as string)
  return pairs.filter((pair) => !pair.endsWith('=')).join('; ')
}

async function visit(serving: Serving, cookie: string): Promise<{ status: number; text: string }> {
  const { status, headers } = await serving.send('/login', { headers: { ...HOME, cookie } })
  return { status, text: `${status} ${headers['sluice-error-code'] ?? ''} ${String(headers.location).split('?')[0]}` }
}

/** Names and types of the fields of a line, with its message. */
function fieldsOf({ msg, path, ...line }: Record<string, unknown>): string {
  const fields = Object.entries(line).map(([name, value]) => `${name} ${typeof value}`)
  return `${String(msg)} ${String(path ?? '')}: ${fields.join(', ')}`
}

/** The events in a file by their types; those of one type stay in their order. */
async function eventsOf(file: string): Promise<string> {
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n')
  const typeOf = (line: string) => (JSON.parse(line) as { event_type: string }).event_type
  return lines.sort((a, b) => typeOf(a).localeCompare(typeOf(b))).join('\n')
}

function rows(folder: string, tables: readonly string[]): string {
  const store = new Sqlite(join(folder, 'data', 'sluice.db'))
  try {
    return tables
      .flatMap((table) => {
        const all = store.prepare(`SELECT * FROM "${table}"`).all() as Record<string, unknown>[]
        return [`${table}:`, ...all.map((row) => JSON.stringify(row, bytesAsText))]
      })
      .join('\n')
  } finally {
    store.close()
  }
}

function bytesAsText(this: Record<string, unknown>, name: string, value: unknown): unknown {
  const own = this[name]
  if (own instanceof ArrayBuffer) return Buffer.from(own).toString('hex')
  return own instanceof Uint8Array ? Buffer.from(own).toString('hex') : value
}

/** What a build makes of the data folder that `from` has left: records, sessions, first decisions of limits, rows of the store. */
export async function carryOn(
  build: Build,
  from: string,
  folder: string,
  around: Surroundings,
  cookies: readonly string[]
): Promise<Recording> {
  const found: Recording = new Map()
  await cp(from, folder, { recursive: true })
  const before = rows(folder, LASTING)
  const serving = await startIn(build, folder, around)
  try {
    for (const path of [
      '/vaults',
      '/ip_policies',
      '/edges/https',
      '/backends/static',
      '/event_destinations',
      '/credentials',
      '/revisions'
    ]) {
      const { status, text } = await serving.call(path)
      found.set(`carried ${path}`, `${status} ${text.replaceAll(serving.api, '')}`)
    }
    found.set('carried session', (await visit(serving, cookies[0] ?? '')).text)
    found.set('carried ended session', (await visit(serving, cookies[1] ?? '')).text)
    for (const turn of [1, 2, 3]) {
      const { status } = await serving.send('/limited', { headers: { host: 'limited.example.com' } })
      found.set(`carried limit ${turn}`, String(status))
    }
  } finally {
    await serving.stop()
  }
  found.set('carried rows', rows(folder, LASTING) === before ? 'as they were' : rows(folder, LASTING))
  return found
}

/** The account of `from` as a document, and the account that a build makes of that document in an empty folder. */
export async function exported(build: Build, data: string, cwd: string): Promise<string> {
  const { code, out, err } = await build.run(['export', '--data', data], cwd)
  if (code !== 0) throw new Error(`export ends with ${code}: ${err}`)
  return out
}

export async function imported(from: Build, to: Build, data: string, folder: string): Promise<Recording> {
  await mkdir(folder)
  const written = await from.run(
    ['export', '--data', data, '--with-secrets', '--output', 'account.yaml'],
    folder,
    PASSPHRASE
  )
  const command = ['import', 'account.yaml', '--yes', '--data', 'data']
  const whole = await to.run(command, folder, PASSPHRASE)
  // Exports of builds before the end mark have none.
  const read = /--partial/.test(whole.err) ? await to.run([...command, '--partial'], folder, PASSPHRASE) : whole
  return new Map([
    ['export', `${written.code} ${written.err}`],
    ['import', `${read.code} ${read.out}${read.err}`],
    ['account after the import', await exported(to, 'data', folder)]
  ])
}
