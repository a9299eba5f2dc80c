import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import autocannon from 'autocannon'
import { findProgram } from './process.js'
import type { ClientRequest, Coding } from './scenarios.js'

/** What a load generator saw. Latencies in milliseconds. */
export interface Load {
  readonly requests: number
  readonly seconds: number
  readonly bytes: number
  readonly p50: number
  readonly p99: number
  /** Socket errors and answers with another status than expected. */
  readonly errors: number
}

/** Options of the load. */
interface LoadOptions {
  /** wrk has a CPU of its own. @default true */
  readonly pinned?: boolean
  /** Over TLS. @default false */
  readonly secure?: boolean
  /** Name that resolves to the loopback address. @default the address */
  readonly host?: string
}

/** Keep-alive load on one URL for some seconds: wrk where it is there, else autocannon. Loopback only. */
export function load(
  port: number,
  path: string,
  connections: number,
  seconds: number,
  statusMayFail: boolean,
  { pinned = true, secure = false, host = '127.0.0.1' }: LoadOptions = {}
): Promise<Load> {
  const url = `${secure ? 'https' : 'http'}://${host}:${port}${path}`
  if (findProgram('wrk') === undefined) return withAutocannon({ url, connections, seconds, statusMayFail })
  return withWrk({ url, connections, seconds, statusMayFail }, pinned)
}

/** Keep-alive load of one request with its fields and body for some seconds. Loopback only. */
export function requestLoad(
  port: number,
  path: string,
  { request, connections, seconds }: { request: ClientRequest; connections: number; seconds: number }
): Promise<Load> {
  return withAutocannon({ url: `http://127.0.0.1:${port}${path}`, connections, seconds, statusMayFail: false }, request)
}

interface Loaded {
  readonly url: string
  readonly connections: number
  readonly seconds: number
  readonly statusMayFail: boolean
}

function withWrk({ url, connections, seconds, statusMayFail }: Loaded, onOwnCpu: boolean): Promise<Load> {
  const args = ['-t1', '--timeout', '30s', `-c${connections}`, `-d${seconds}s`, '--latency', url]
  const pinned = onOwnCpu && findProgram('taskset') !== undefined
  return new Promise((resolve, reject) => {
    const child = spawn(pinned ? 'taskset' : 'wrk', pinned ? ['-c', '1', 'wrk', ...args] : args)
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.on('error', reject)
    child.on('close', () => {
      const total = /(\d+) requests in ([\d.]+)s, ([\d.]+)([KMG]?)B read/.exec(output)
      if (total === null) return reject(new Error(`wrk said:\n${output}`))
      const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(output)
      const failed = Number(/Non-2xx or 3xx responses: (\d+)/.exec(output)?.[1] ?? 0)
      resolve({
        requests: Number(total[1]),
        seconds: Number(total[2]),
        bytes: Number(total[3]) * ({ '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }[total[4] ?? ''] ?? 1),
        p50: percentile(output, '50%'),
        p99: percentile(output, '99%'),
        errors:
          (errors === null ? 0 : errors.slice(1).reduce((sum, count) => sum + Number(count), 0)) +
          (statusMayFail ? 0 : failed)
      })
    })
  })
}

function percentile(output: string, name: string): number {
  const match = new RegExp(`${name}\\s+([\\d.]+)(us|ms|s)`).exec(output)
  return Number(match?.[1] ?? Number.NaN) * ({ us: 0.001, ms: 1, s: 1_000 }[match?.[2] ?? 'ms'] ?? 1)
}

async function withAutocannon(
  { url, connections, seconds, statusMayFail }: Loaded,
  request?: ClientRequest
): Promise<Load> {
  const result = await autocannon({ url, connections, duration: seconds, ...request })
  return {
    requests: result.requests.total,
    seconds: result.duration,
    bytes: result.throughput.total,
    p50: result.latency.p50,
    p99: result.latency.p99,
    errors: result.errors + (statusMayFail ? 0 : result.non2xx)
  }
}

/** Load with bodies. `upload`: size of the request's body (bytes). `coding`: what the client accepts. `pinned`: see `LoadOptions`. */
interface BodyLoad {
  readonly path: string
  readonly connections: number
  readonly seconds: number
  readonly secure?: 'http/1.1' | 'h2' | undefined
  readonly upload?: number | undefined
  readonly coding?: Coding | undefined
  readonly pinned?: boolean
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-load-'))

/** Keep-alive load of h2load, one request at a time on each connection, for some seconds. Loopback only. */
export async function bodyLoad(
  port: number,
  { path, connections, seconds, secure, upload, coding, pinned = true }: BodyLoad
): Promise<Load> {
  const file = join(folder, `upload-${upload}`)
  if (upload !== undefined && !existsSync(file)) writeFileSync(file, Buffer.alloc(upload, 'u'))
  const log = join(folder, `log-${port}`)
  rmSync(log, { force: true })
  const protocol = secure === 'h2' ? [] : ['--h1']
  // The windows of a client that is in no hurry would be what is measured.
  const windows = secure === 'h2' ? ['-w24', '-W24'] : []
  const data = upload === undefined ? [] : ['-d', file]
  const accepted = coding === undefined ? [] : ['-H', `accept-encoding: ${coding}`]
  const url = `${secure === undefined ? 'http' : 'https'}://127.0.0.1:${port}${path}`
  const how = [`-c${connections}`, '-m1', '-t1', `-D${seconds}`, `--log-file=${log}`]
  const args = [...protocol, ...windows, ...data, ...accepted, ...how, url]
  const onOwnCpu = pinned && findProgram('taskset') !== undefined
  const child = spawn(onOwnCpu ? 'taskset' : 'h2load', onOwnCpu ? ['-c', '1', 'h2load', ...args] : args)
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const succeeded = /(\d+) done, (\d+) succeeded/.exec(output)
  const codes = /status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/.exec(output)
  const took = /finished in ([\d.]+)(ms|s|us)/.exec(output)
  if (succeeded === null || codes === null || took === null) throw new Error(`h2load said:\n${output}`)
  const requests = Number(succeeded[2])
  const bytes = Number(/traffic: .*?, .*?, .*?\((\d+)\) data/.exec(output)?.[1] ?? 0)
  const times = latencies(log)
  return {
    requests,
    seconds: Number(took[1]) * ({ us: 1e-6, ms: 1e-3, s: 1 }[took[2] ?? 's'] ?? 1),
    bytes: upload === undefined ? bytes : requests * upload,
    p50: at(times, 0.5),
    p99: at(times, 0.99),
    errors: Number(codes[2]) + Number(codes[3]) + Number(codes[4])
  }
}

/** Returns the times of complete answers in a log of h2load, sorted (ms). A line has begin (µs), status and time (µs). */
function latencies(log: string): Float64Array {
  const lines = existsSync(log) ? readFileSync(log, 'latin1').split('\n') : []
  const times = lines.map((line) => line.split('\t')).filter((parts) => parts.length === 3 && parts[1] !== '-1')
  return Float64Array.from(times, (parts) => Number(parts[2]) / 1_000).sort()
}

/** Returns the value below which the share `part` of sorted values lies; NaN without values. */
function at(sorted: Float64Array, part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
