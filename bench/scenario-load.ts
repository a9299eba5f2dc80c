import { request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import type { TLSSocket } from 'node:tls'
import zlib from 'node:zlib'
import { bodyLoad, type Load, load, requestLoad } from './load.js'
import type { Peer, RunningPeer } from './peers.js'
import { cpuSeconds, residentMegabytes } from './process.js'
import type { Coding, Scenario } from './scenarios.js'

/** Load on one proxy, and its cost. `cpu`: seconds. `memory`: MiB that are resident afterwards. */
export interface Sample extends Load {
  readonly cpu: number
  readonly memory: number
}

/** Longest load that waits for a first answer (s). */
const LONGEST = 60

/** Returns the port that `scenario` asks. */
function portFor({ port, tlsPort = port }: RunningPeer, { secure }: Scenario): number {
  return secure === undefined ? port : tlsPort
}

/** Puts the load of `scenario` on a proxy. `pinned`: the load has a CPU of its own. */
export function scenarioLoad(running: RunningPeer, scenario: Scenario, seconds: number, pinned = true): Promise<Load> {
  const { path, connections, secure, upload, refused, bulk, request, coding } = scenario
  const port = portFor(running, scenario)
  if (bulk) return bodyLoad(port, { path, connections, seconds, secure, upload, coding, pinned })
  if (request === undefined) return load(port, path, connections, seconds, refused, { pinned })
  return requestLoad(port, path, { request, connections, seconds })
}

/**
 * Runs `load` and returns what it cost the process `pid`. A load in which no answer was complete has no cost for each answer, so it is repeated for
 * twice as long. Throws after a minute of it.
 */
export async function sampleOf(
  pid: number,
  seconds: number,
  load: (seconds: number) => Promise<Load>,
  answers: (seen: Load) => number = ({ requests }) => requests
): Promise<Sample> {
  for (let duration = seconds; duration <= LONGEST; duration *= 2) {
    const before = cpuSeconds(pid)
    const seen = await load(duration)
    const cpu = cpuSeconds(pid) - before
    if (answers(seen) > 0 && cpu > 0) return { ...seen, cpu, memory: residentMegabytes(pid) }
  }
  throw new Error(`no answer was complete within ${LONGEST} s`)
}

interface Answer {
  readonly status: number | undefined
  readonly encoding: string | undefined
  readonly body: Buffer
  /** Cipher suite; undefined in clear text. */
  readonly cipher: string | undefined
}

/** Version and cipher suite of all proxies: another one has another price. */
export const CIPHER = 'TLS_AES_128_GCM_SHA256'

/** Only a proxy whose answer is the one that the scenario is about gets figures. Throws for any other. */
export async function checkAnswer(
  peer: Peer,
  running: RunningPeer,
  scenario: Scenario,
  upstream: number
): Promise<void> {
  const { refused, secure, coding, replaced, upload, request } = scenario
  const fail = (what: string): never => {
    throw new Error(`${peer.name} in "${scenario.title}": ${what}${running.failure()}`)
  }
  const ask = (): Promise<Answer> =>
    askOnce(portFor(running, scenario), scenario).catch((error: Error) => fail(error.message))
  // A limit lets the first requests pass, and a process that has just started may be too slow for a limit of time.
  const wanted = refused ? 429 : 200
  let answer = await ask()
  for (let asked = 1; asked < 4 && answer.status !== wanted; asked++) answer = await ask()
  const { status, encoding, body, cipher } = answer
  if (status !== wanted) fail(`answers ${status}`)
  if (refused) return
  if (secure !== undefined && cipher !== CIPHER) fail(`speaks ${cipher}`)
  if (encoding !== coding) fail(`answers with the coding ${encoding}`)
  const isPost = upload !== undefined || request?.body !== undefined
  const sent = isPost ? undefined : (await askOnce(upstream, { path: scenario.path })).body
  const expected =
    sent !== undefined && replaced !== undefined
      ? Buffer.from(sent.toString().replaceAll(replaced.from, replaced.to))
      : sent
  const got = decode(body, coding)
  const isRight = expected === undefined ? got.length === scenario.answer : got.equals(expected)
  if (!isRight) fail(`answers another body, of ${got.length} bytes`)
  if (coding !== undefined) console.log(`${peer.name}: ${got.length} bytes are ${body.length} with ${coding}`)
}

/** Missing in Node 20 and in the type definitions. */
const { zstdDecompressSync } = zlib as { zstdDecompressSync?: (bytes: Buffer) => Buffer }

/** True if this Node knows zstd, which it needs for the product and for the check of its answer. */
export const hasZstd = zstdDecompressSync !== undefined

function decode(body: Buffer, coding: Coding | undefined): Buffer {
  if (coding === 'br') return zlib.brotliDecompressSync(body)
  if (coding === 'gzip') return zlib.gunzipSync(body)
  if (coding === 'zstd' && zstdDecompressSync !== undefined) return zstdDecompressSync(body)
  return body
}

/** Parts of a scenario that a request is made of. */
interface Asked extends Pick<Scenario, 'path' | 'upload' | 'request'> {
  readonly secure?: Scenario['secure'] | undefined
  readonly coding?: Coding | undefined
}

/** Asks once over HTTP/1.1. */
function askOnce(port: number, { path, secure, upload, request, coding }: Asked): Promise<Answer> {
  const body = upload === undefined ? request?.body : Buffer.alloc(upload)
  const method = body === undefined ? 'GET' : 'POST'
  const headers = { ...request?.headers, ...(coding === undefined ? {} : { 'accept-encoding': coding }) }
  const asked = { host: '127.0.0.1', port, path, method, headers, rejectUnauthorized: false }
  return new Promise((resolve, reject) => {
    const asking = secure === undefined ? plainRequest(asked) : secureRequest(asked)
    asking.on('response', async (response) => {
      const { socket, statusCode: status, headers } = response
      const cipher = 'encrypted' in socket ? (socket as TLSSocket).getCipher()?.name : undefined
      const chunks: Buffer[] = []
      try {
        for await (const chunk of response) chunks.push(chunk as Buffer)
      } catch (error) {
        reject(error)
        return
      }
      resolve({ status, encoding: headers['content-encoding'], body: Buffer.concat(chunks), cipher })
    })
    asking.on('error', reject)
    asking.end(body)
  })
}
