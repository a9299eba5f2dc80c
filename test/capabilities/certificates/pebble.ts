import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { selfSigned } from '../../../src/lib/self-signed.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** Path of a real certificate authority for tests (Debian package pebble), or undefined. */
const pebblePath: string | undefined = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'pebble'))
  .find(isExecutable)

/** For `t.test`: runs where the authority is, and says why not elsewhere. */
export const needsPebble = pebblePath === undefined ? { skip: 'needs pebble (Debian package pebble) in PATH' } : {}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    // Not there is as good as not executable.
    return false
  }
}

export interface Pebble {
  readonly directory: string
  /** PEM of what its API presents. */
  readonly ca: string
  /** Ends it; `start` begins a new one that remembers nothing, at the same address. */
  kill(): Promise<void>
  start(): Promise<void>
  /** Orders that were placed since it was started. */
  orders(): number
}

export interface PebbleSetup {
  /** Where names are resolved. */
  readonly dns: number
  /** Where http-01 is asked. */
  readonly http: number
  /** Where tls-alpn-01 is asked. @default nowhere */
  readonly tls?: number
  readonly externalAccounts?: Readonly<Record<string, string>>
  /** Percentage of nonces that it refuses. */
  readonly badNonces?: number
}

/** Starts the authority; it ends with the test. */
export async function startPebble(
  t: Test,
  { dns, http, tls: tlsPort = 1, externalAccounts, badNonces = 0 }: PebbleSetup
): Promise<Pebble> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-pebble-'))
  const tls = await selfSigned('pebble', ['127.0.0.1', 'localhost'], Date.now())
  const [api, management] = [await freePort(), await freePort()]
  await writeFile(join(folder, 'cert.pem'), tls.chain)
  await writeFile(join(folder, 'key.pem'), tls.privateKey)
  const pebble = {
    listenAddress: `127.0.0.1:${api}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: join(folder, 'cert.pem'),
    privateKey: join(folder, 'key.pem'),
    httpPort: http,
    tlsPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: externalAccounts !== undefined,
    externalAccountMACKeys: externalAccounts ?? {}
  }
  await writeFile(join(folder, 'config.json'), JSON.stringify({ pebble }))
  let child: ChildProcess | undefined
  let orders = 0
  const start = async () => {
    orders = 0
    child = await run(folder, dns, badNonces)
    child.stdout?.on('data', (chunk: Buffer) => {
      orders += chunk.toString().split('Added order').length - 1
    })
  }
  const kill = async () => {
    if (child === undefined) return
    const ended = new Promise((resolve) => child?.once('exit', resolve))
    child.kill('SIGKILL')
    child = undefined
    await ended
  }
  t.teardown(async () => {
    await kill()
    await rm(folder, { recursive: true, force: true })
  })
  await start()
  return { directory: `https://127.0.0.1:${api}/dir`, ca: tls.chain, start, kill, orders: () => orders }
}

async function run(folder: string, dns: number, badNonces: number): Promise<ChildProcess> {
  const child = spawn(
    pebblePath ?? 'pebble',
    ['-config', join(folder, 'config.json'), '-dnsserver', `127.0.0.1:${dns}`],
    {
      env: {
        PEBBLE_VA_NOSLEEP: '1',
        PEBBLE_AUTHZREUSE: '0',
        PEBBLE_WFE_NONCEREJECT: String(badNonces),
        PATH: process.env.PATH
      },
      stdio: ['ignore', 'pipe', 'pipe']
    }
  )
  let said = ''
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer) => {
      said += chunk.toString()
      if (said.includes('ACME directory available at')) resolve()
    }
    child.stdout?.on('data', hear)
    child.stderr?.on('data', hear)
    child.once('exit', () => reject(new Error(`pebble ended: ${said}`)))
  })
  return child
}

/** A port that nobody has right now; the authority cannot take a free one itself. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
