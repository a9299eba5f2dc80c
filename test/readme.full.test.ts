import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test as TapTest } from 'tap'
import { actions } from '../src/features/registry.js'
import { FAILURES, requestErrors } from '../src/flow/error-codes.js'
import { selfSigned } from '../src/lib/self-signed.js'
import { optionEntries } from '../src/options/catalogue.js'
import { SluiceProcess } from './cli/process.js'
import { projectFile } from './helpers/files.js'
import { startSluice } from './helpers/sluice.js'
import { freePort } from './proxy/free-port.js'
import { startPostgres } from './store/postgres-server.js'

const read = (file: string) => readFile(projectFile(file), 'utf8')
/** The pages that show commands and files; each of these is tried. */
const PAGES = ['getting-started', 'operations', 'api', 'agents', 'policies', 'balancing'].map(
  (name) => `docs/${name}.md`
)
const readme = (await Promise.all(['README.md', ...PAGES].map(read))).join('\n')
const blocks = (language: string) =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, text]) => text as string)

interface Test {
  teardown(run: () => Promise<void>): void
}

async function folderWith(t: Test, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-readme-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

t.test('every policy and site file that is shown is valid as it stands', async (t) => {
  const files = Object.fromEntries(blocks('yaml').map((text, i) => [`${i}.yaml`, text]))
  const cwd = await folderWith(t, files)
  // What the site file names.
  const { chain, privateKey } = await selfSigned('shop.example.com', ['shop.example.com'], Date.now())
  for (const folder of ['tls', 'policies']) await mkdir(join(cwd, folder))
  await writeFile(join(cwd, 'tls/shop.pem'), chain)
  await writeFile(join(cwd, 'tls/shop.key'), privateKey)
  await writeFile(join(cwd, 'policies/shop.yaml'), 'on_http_request: []\n')
  const ended = await new SluiceProcess(t, ['check', ...Object.keys(files)], { cwd }).ended()
  t.equal(ended.code, 0, ended.out + ended.err)
  t.match(ended.out + ended.err, `${Object.keys(files).length} file`)
})

t.test('the errors that are shown are what `sluice check` says', async (t) => {
  const policy = [
    'on_http_request:',
    '  - name: admins only',
    '    expressions:',
    "      - req.url.paht.startsWith('/admin')",
    '    actions:',
    '      - type: denny',
    '  - actions:',
    '      - type: rate-limit',
    '        config:',
    '          name: api',
    '          algorithm: sliding_window',
    '          capacity: 0',
    '          rate: 60s',
    '          bucket_key: [conn.client_ip]'
  ].join('\n')
  const shown = blocks('console').find((text) => text.includes('sluice check')) as string
  const expected = shown.slice(shown.indexOf('\n') + 1).trim()
  const cwd = await folderWith(t, { 'my.yaml': policy })
  const ended = await new SluiceProcess(t, ['check', 'my.yaml'], { cwd }).ended()
  t.equal(ended.code, 1)
  t.equal((ended.out + ended.err).trim(), expected)
})

t.test('the actions that are said to run are those that do', async (t) => {
  const sentence = /Actions that run: (.*?)\. `sluice check`/s.exec(readme)?.[1] ?? ''
  const named = [...sentence.matchAll(/`([a-z-]+)`/g)].map(([, name]) => name)
  const ready = actions.filter(({ availability }) => availability === 'ready').map(({ type }) => type)
  t.same([...named].sort(), [...ready].sort())
})

t.test('the modules that are shown do what is said of them', async (t) => {
  const text = await runTour(t, (tour) => {
    const [begin] = tour.split('\n# A policy') as [string]
    return `${begin}\n${blocks('sh').find((block) => block.includes('/oauth -X PUT'))}`
  })
  t.match(text, 'your service')
  t.match(text, /location: https:\/\/github\.com\/login\/oauth\/authorize\?.*client_id=my-app/)
  t.match(text, /HTTP\/1\.1 403 .*sluice-error-code: WEBHOOK_UNVERIFIED/s)
})

t.test('the tour of the API does what it says, command by command', async (t) => {
  const text = await runTour(t, (tour) => tour)
  const [before, after] = [text.indexOf('your service'), text.indexOf('HTTP/1.1 503')]
  t.ok(before > 0 && after > before, 'the service answers, then the policy')
  t.match(text, 'Back soon')
  t.match(text, '"revisions"')
})

/** Runs what `choose` makes of the tour against the product; answers everything that is printed. */
async function runTour(t: TapTest, choose: (tour: string) => string): Promise<string> {
  const upstream = createServer((_request, response) => response.end('your service'))
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => upstream.close())
  const sluice = await startSluice(t)
  const cwd = await folderWith(t, {})
  await cp(projectFile('config'), join(cwd, 'config'), { recursive: true })
  const script = choose(blocks('sh').find((text) => text.startsWith('api()')) as string)
    .replaceAll('127.0.0.1:4040', `127.0.0.1:${sluice.apiPort}`)
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${sluice.port}`)
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${(upstream.address() as AddressInfo).port}`)
  const env = { PATH: process.env.PATH, SLUICE_API_KEY: sluice.apiKey }
  const run = spawn('bash', ['-euo', 'pipefail', '-c', script], { cwd, env })
  const output: Buffer[] = []
  run.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  run.stderr.on('data', (chunk: Buffer) => output.push(chunk))
  const [code] = await once(run, 'close')
  const text = Buffer.concat(output).toString('utf8')
  t.equal(code, 0, text)
  return text
}

t.test('a site file, from an empty folder to a limit that an edit brings, as shown', async (t) => {
  const upstream = createServer((_request, response) => response.end('your service'))
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => upstream.close())
  const cwd = await folderWith(t, {})
  const port = await freePort()
  const [first = '', second = ''] = blocks('sh')
    .filter((text) => text.startsWith('cat > try.yaml'))
    .map((text) => text.replaceAll(':8000', `:${port}`))
    .map((text) => text.replaceAll(':3000', `:${(upstream.address() as AddressInfo).port}`))
  const bash = async (script: string) => {
    const run = spawn('bash', ['-euo', 'pipefail', '-c', script], { cwd })
    const output: Buffer[] = []
    run.stdout.on('data', (chunk: Buffer) => output.push(chunk))
    t.same(await once(run, 'close'), [0, null], script)
    return Buffer.concat(output).toString('utf8').trim()
  }
  const words = [...first.matchAll(/^\.\/sluice (.*)$/gm)].map(([, text = '']) => text.split(' '))
  t.same(words, [
    ['check', 'try.yaml'],
    ['start', 'try.yaml']
  ])
  await bash(first.slice(0, first.indexOf('./sluice')))
  const checked = await new SluiceProcess(t, words[0] as string[], { cwd }).ended()
  t.equal(checked.code, 0, checked.out + checked.err)
  const env = { SLUICE_LISTEN: '127.0.0.2:0', SLUICE_API_LISTEN: '127.0.0.1:0', SLUICE_LIMITER_BUDGET: '64MiB' }
  const sluice = new SluiceProcess(t, words[1] as string[], { cwd, env })
  await sluice.logged('listening')
  t.equal(await bash(`curl -s http://localhost:${port}/`), 'your service')
  const loop = second.indexOf('for i in')
  await bash(second.slice(0, loop))
  await sluice.logged('reloaded"')
  t.equal(await bash(second.slice(loop)), '200 200 200 200 200 429')
})

t.test('an account is exported, looked at, imported elsewhere, and its key rotated, as shown', async (t) => {
  const cwd = await folderWith(t, {})
  const env = { SLUICE_LISTEN: '127.0.0.1:0', SLUICE_API_LISTEN: '127.0.0.1:0', SLUICE_LIMITER_BUDGET: '64MiB' }
  const first = new SluiceProcess(t, ['start'], { cwd, env })
  await first.logged('listening')
  first.child.kill('SIGTERM')
  t.equal((await first.ended()).code, 0)
  const backups = await folderWith(t, {})
  const commands = blocks('sh')
    .find((text) => text.includes('sluice export'))
    ?.replaceAll('/backups/', `${backups}/`)
  const run = async (words: readonly string[], variables: Record<string, string> = {}) => {
    const ended = await new SluiceProcess(t, words, { cwd, env: variables }).ended()
    t.equal(ended.code, 0, `${words.join(' ')}\n${ended.err}`)
    return ended.out
  }
  const SHOWN = /^(?:SLUICE_PASSPHRASE='(.*?)' )?\.\/sluice (.*?)\s*(?:#.*)?$/gm
  const passphrase = { SLUICE_PASSPHRASE: 'a long sentence' }
  let count = 0
  for (const [, , words = ''] of (commands ?? '').matchAll(SHOWN)) {
    await run(words.split(' '), passphrase)
    count++
  }
  t.equal(count, 8)
  t.equal(await run(['export', '--data', 'elsewhere']), await run(['export']))
})

t.test('a process starts on PostgreSQL as shown', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const cwd = await folderWith(t, {})
  const block = blocks('sh').find((text) => text.includes('--store postgres://')) ?? ''
  const words = /\.\/sluice (start .*)$/m.exec(block)?.[1]?.split(' ') ?? []
  const here = words.map((word) => (word.startsWith('postgres://') ? url : word.replace(/:\d+$/, ':0')))
  const key = randomBytes(32).toString('hex')
  t.match(block, 'SLUICE_SEAL_KEY=$(openssl rand -hex 32)')
  const env = { SLUICE_SEAL_KEY: key, SLUICE_LIMITER_BUDGET: '64MiB' }
  const process = new SluiceProcess(t, here, { cwd, env })
  t.ok(await process.logged('listening'))
})

t.test('options, scripts, codes and files that are named exist', async (t) => {
  const paths = optionEntries().map(({ path }) => path)
  for (const [, option] of readme.matchAll(/^\| `--[a-z]+` \| `([a-z.]+)` \|/gm))
    t.ok(paths.includes(option as string), option as string)
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Record<string, string> }
  for (const [, script] of readme.matchAll(/npm run ([a-z:]+)/g))
    t.ok((script as string) in scripts, `npm run ${script}`)
  const codes = [...Object.values(FAILURES), ...Object.values(requestErrors)].map(({ code }) => code)
  const shown = /`sluice-error-code` says why: (.*?) …/s.exec(readme)?.[1] ?? ''
  const ofActions = ['RATE_LIMITED', 'POLICY_DENIED', 'IP_RESTRICTED', 'BASIC_AUTH', 'POLICY_EXPRESSION']
  for (const [, code] of shown.matchAll(/`([A-Z_]+)`/g))
    t.ok([...codes, ...ofActions].includes(code as string), code as string)
})

t.test('each option of config/sluice.yaml is one of the schema, and each of the schema stands there', async (t) => {
  const text = await read('config/sluice.yaml')
  for (const { path } of optionEntries()) t.match(text, new RegExp(`^#? *#?${path.split('.').at(-1)}:`, 'm'), path)
})
