import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openAccount } from './account.js'
import { KEY } from './asking.js'

const run = promisify(execFile)
/** The generator, which is installed for this test alone: it brings 57 packages. */
const GENERATOR = ['@hey-api/openapi-ts', '0.95.0'] as const
const find = createRequire(import.meta.url)
const COMPILER = join(dirname(find.resolve('typescript-7/package.json')), 'bin', 'tsc')
const TYPESCRIPT: string = find('typescript/package.json').version

/** What a user of the generated client writes; the compiler checks it against the types that the document gave. */
const PROGRAM = `
import { createClient } from './client/client/index.js'
import * as api from './client/sdk.gen.js'

export async function life(baseUrl: string, key: string) {
  const headers = { 'service-version': '2' } as const
  const client = createClient({ baseUrl, auth: key, headers, throwOnError: true })
  const call = { client, throwOnError: true } as const
  const seen: Record<string, unknown> = {}

  const { data: policy } = await api.ipPolicyCreate({ ...call, body: { description: 'first' } })
  const path = { id: policy.id }
  seen.got = (await api.ipPolicyGet({ ...call, path })).data.description
  const page = (await api.ipPolicyList({ ...call, query: { limit: 5 } })).data
  seen.listed = page.ip_policies.map(({ id }) => id).includes(policy.id) && page.next_page_uri === null
  const updated = await api.ipPolicyUpdate({ ...call, path, body: { metadata: 'm' } })
  seen.updated = updated.data.metadata + updated.data.description
  const tag = updated.response.headers.get('etag') ?? ''
  const { data: rule } = await api.ipPolicyRuleCreate({
    ...call,
    body: { cidr: '10.0.0.0/8', action: 'allow', ip_policy_id: policy.id }
  })
  seen.rule = rule.ip_policy?.id === policy.id

  const { data: backend } = await api.staticBackendCreate({ ...call, body: { address: 'a.test:80' } })
  const { data: edge } = await api.httpsEdgeCreate({ ...call, body: { hostports: ['app.test:443'] } })
  const { data: route } = await api.httpsEdgeRouteCreate({
    ...call,
    path: { edge_id: edge.id },
    body: { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } }
  })
  const below = { edge_id: edge.id, id: route.id }
  const put = await api.httpsEdgeRouteIpRestrictionReplace({
    ...call,
    path: below,
    body: { ip_policy_ids: [policy.id] }
  })
  seen.put = put.data.enabled
  const module = (await api.httpsEdgeRouteIpRestrictionGet({ ...call, path: below })).data
  seen.module = module.ip_policies.map(({ id }) => id === policy.id)
  await api.httpsEdgeRouteIpRestrictionDelete({ ...call, path: below })
  const { error: absent } = await api.httpsEdgeRouteIpRestrictionGet({ ...call, path: below, throwOnError: false })
  seen.absent = absent?.error_code
  const whole = (await api.httpsEdgeGet({ ...call, path: { id: edge.id } })).data
  seen.routes = whole.routes.map(({ backend: to }) => to?.backend?.id === backend.id)

  const { data: subscription } = await api.eventSubscriptionCreate({
    ...call,
    body: { sources: [{ type: 'vault_created.v0' }] }
  })
  const sources = await api.eventSubscriptionSourcesList({ ...call, path: { id: subscription.id } })
  seen.sources = sources.data.sources.map(({ type }) => type)

  seen.gone = (await api.ipPolicyDelete({ ...call, path, headers: { 'if-match': tag } })).response.status
  const { error, response } = await api.ipPolicyGet({ ...call, path, throwOnError: false })
  seen.error = [response?.status, error?.status_code, error?.error_code, typeof error?.details.operation_id]
  return seen
}
`

const CONFIGURATION = {
  compilerOptions: {
    target: 'ES2023',
    module: 'NodeNext',
    strict: true,
    // The libraries of TypeScript itself; what is generated has no declarations.
    skipLibCheck: true,
    lib: ['ES2023', 'DOM', 'DOM.Iterable'],
    types: [],
    rootDir: '.',
    outDir: 'out'
  },
  include: ['.']
}

/** A folder with the client that the document of the API at `base` gives, and the program beside it. */
async function generate(t: Test, base: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-client-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const input = join(folder, 'openapi.json')
  await writeFile(input, await (await fetch(`${base}/openapi.json`)).text())
  const own = await mkdtemp(join(tmpdir(), 'sluice-generator-'))
  t.teardown(() => rm(own, { recursive: true, force: true }))
  const words = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', own]
  await run('npm', [...words, GENERATOR.join('@'), `typescript@${TYPESCRIPT}`])
  const configuration = {
    input,
    output: { path: join(folder, 'client'), module: { extension: '.js' } },
    logs: { level: 'silent', file: false },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk']
  }
  const program = `import { createClient } from '${GENERATOR[0]}'\nawait createClient(${JSON.stringify(configuration)})\n`
  await writeFile(join(own, 'generate.mjs'), program)
  await run(process.execPath, [join(own, 'generate.mjs')])
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(join(folder, 'program.ts'), PROGRAM)
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(CONFIGURATION))
  return folder
}

t.test('a client generated from the document is typed, and what it does works', { timeout: 300_000 }, async (t) => {
  const { host, port } = await openAccount(t, { ownBase: true })
  const base = `http://${host}:${port}`
  const folder = await generate(t, base)
  await t.resolves(run(process.execPath, [COMPILER, '-p', folder]), 'the compiler accepts client and program')
  const { life } = await import(pathToFileURL(join(folder, 'out/program.js')).href)
  t.same(await life(base, KEY), {
    got: 'first',
    listed: true,
    updated: 'mfirst',
    rule: true,
    put: true,
    module: [true],
    absent: 'ERR_SLUICE_NOT_FOUND',
    routes: [true],
    sources: ['vault_created.v0'],
    gone: 204,
    error: [404, 404, 'ERR_SLUICE_NOT_FOUND', 'string']
  })
})
