import { spawn } from 'node:child_process'
import autocannon from 'autocannon'
import { findProgram } from './process.js'

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

async function withAutocannon({ url, connections, seconds, statusMayFail }: Loaded): Promise<Load> {
  const result = await autocannon({ url, connections, duration: seconds })
  return {
    requests: result.requests.total,
    seconds: result.duration,
    bytes: result.throughput.total,
    p50: result.latency.p50,
    p99: result.latency.p99,
    errors: result.errors + (statusMayFail ? 0 : result.non2xx)
  }
}
