import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { pino } from 'pino'
import { start } from '../../app/app.js'
import type { Capability } from '../../app/capability.js'
import { systemClock } from '../../lib/clock.js'
import { CodedError } from '../../lib/errors.js'
import { formatOptionProblem } from '../../options/catalogue.js'
import { loadOptions } from '../../options/load.js'
import type { ImportFlags } from './command-flags.js'
import { importErrors } from './errors.js'
import type { ImportedConfig, ImportedListener, Statement } from './model.js'
import { formatProof, type ProofServers, proofFailed, proofJson, proveRequests } from './proof/prove.js'
import { Recorder } from './proof/recorder.js'
import { deriveRequests, type ProofRequest, readRequests } from './proof/requests.js'
import { withoutClashes, writeSiteFile } from './site-file.js'

/** Result of a proof. */
export interface Proof {
  readonly failed: boolean
  readonly lines: readonly string[]
  readonly json: object
}

/** Compares the old server with Sluice serving the new file. Throws IMPORT_PROOF if either cannot be compared. */
export async function prove(
  config: ImportedConfig,
  statements: readonly Statement[],
  flags: ImportFlags
): Promise<Proof> {
  const old = new URL(flags.old as string)
  if (old.port === '') old.port = old.protocol === 'https:' ? '443' : '80'
  const requests = await requestsOf(config, flags)
  const stops: (() => Promise<unknown>)[] = []
  try {
    const recorders = flags.upstreams === 'record' ? await startRecorders(config, flags, stops) : undefined
    const now = await startNew(
      config,
      old,
      { recorders: recorders?.now, capabilities: await flags.capabilities() },
      stops
    )
    const servers: ProofServers = {
      old,
      now,
      ...(recorders === undefined ? {} : { oldRecorders: recorders.old, newRecorders: recorders.now })
    }
    const result = await proveRequests(requests, servers, config, statements)
    return { failed: proofFailed(result), lines: formatProof(result), json: proofJson(result) }
  } finally {
    for (const stop of stops.reverse()) await stop()
  }
}

async function requestsOf(
  config: ImportedConfig,
  { requests, allMethods = false }: ImportFlags
): Promise<readonly ProofRequest[]> {
  if (requests === undefined) return deriveRequests(config, allMethods)
  const host = config.hosts.flatMap(({ names }) => names).find((name) => !name.includes('*')) ?? 'localhost'
  const found = readRequests(await readFile(requests, 'utf8'), host, allMethods)
  if (found !== undefined && found.length > 0) return found
  throw new CodedError(
    importErrors.IMPORT_PROOF,
    `${requests} has no requests: it is neither a HAR file nor an access log, or all have other methods than GET and HEAD`
  )
}

async function startRecorders(
  { upstreams }: ImportedConfig,
  { recordPorts }: ImportFlags,
  stops: (() => Promise<unknown>)[]
) {
  const ports = recordPorts?.split(',').map(Number)
  if (ports !== undefined && ports.length !== upstreams.length) {
    const names = upstreams.map(({ name }) => name).join(', ')
    throw new CodedError(importErrors.IMPORT_PROOF, `--record-ports needs ${upstreams.length} ports, for ${names}`)
  }
  const old: Recorder[] = []
  const now: Recorder[] = []
  for (const [index, { name }] of upstreams.entries()) {
    for (const [list, port] of [
      [old, ports?.[index] ?? 0],
      [now, 0]
    ] as const) {
      const recorder = await Recorder.start(name, port)
      list.push(recorder)
      stops.push(() => recorder.stop())
    }
  }
  if (ports === undefined) await waitForOldServer(old)
  return { old, now }
}

async function waitForOldServer(recorders: readonly Recorder[]): Promise<void> {
  for (const { upstream, port } of recorders)
    console.error(`let the old server use http://127.0.0.1:${port} in place of ${upstream}`)
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  await terminal.question('press Enter when it runs with these: ')
  terminal.close()
}

/** Starts Sluice in this process with the site file on free ports; answers with the URL that belongs to the old one. */
async function startNew(
  config: ImportedConfig,
  old: URL,
  { recorders, capabilities }: { recorders: readonly Recorder[] | undefined; capabilities: readonly Capability[] },
  stops: (() => Promise<unknown>)[]
): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-import-'))
  stops.push(() => rm(folder, { recursive: true, force: true }))
  const ports = new Map<ImportedListener, number>()
  const listeners = withoutClashes(config.listeners)
  for (const listener of listeners) ports.set(listener, await freePort())
  const served = withRecorders(config, recorders)
  const { text } = writeSiteFile(served, { portOf: (listener) => ports.get(listener) as number })
  const file = join(folder, 'site.yaml')
  await writeFile(file, text)
  const environment = {
    ...process.env,
    SLUICE_SITE_FILE: file,
    SLUICE_DATA: ':memory:',
    SLUICE_API_LISTEN: '127.0.0.1:0',
    SLUICE_ACCESS_LOG: 'off',
    SLUICE_TIMEOUTS_DRAIN: '1s'
  }
  const loaded = await loadOptions({ flags: [], environment, folder: process.cwd() })
  if (!loaded.ok) throw new CodedError(importErrors.IMPORT_PROOF, loaded.problems.map(formatOptionProblem).join('\n'))
  const app = await start(
    loaded.options,
    {
      log: pino({ level: 'silent' }),
      clock: systemClock,
      apiKey: undefined,
      sealKey: undefined
    },
    capabilities
  )
  stops.push(() => app.stop())
  const tls = old.protocol === 'https:'
  const listener =
    listeners.find((one) => one.tls === tls && String(one.port) === old.port) ??
    listeners.find((one) => one.tls === tls)
  if (listener === undefined)
    throw new CodedError(
      importErrors.IMPORT_PROOF,
      `the source has no listener ${tls ? 'with' : 'without'} TLS, which --old names`
    )
  return new URL(`${old.protocol}//127.0.0.1:${ports.get(listener)}`)
}

function withRecorders(config: ImportedConfig, recorders: readonly Recorder[] | undefined): ImportedConfig {
  if (recorders === undefined) return config
  const upstreams = config.upstreams.map(({ tls: _tls, ...upstream }, index) => ({
    ...upstream,
    servers: [{ url: `http://127.0.0.1:${recorders[index]?.port}` }]
  }))
  return { ...config, upstreams }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
