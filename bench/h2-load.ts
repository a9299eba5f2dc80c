import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { TEXT } from './h2-origin.js'
import type { Load } from './load.js'
import { findProgram } from './process.js'

const run = promisify(execFile)
/** A message of gRPC: not compressed, 64 bytes (its protocol over HTTP/2, "Length-Prefixed-Message"). */
const MESSAGE = Buffer.concat([Buffer.from([0, 0, 0, 0, 64]), Buffer.alloc(64, 'g')])
const CALL = { 'content-type': 'application/grpc', te: 'trailers' }

/** What one client does: streams that it has open at once, and whether each is a call of gRPC or a GET. */
export interface Http2Load {
  readonly streams: number
  readonly call: boolean
}

/** Load of h2load by prior knowledge for some seconds, on the CPU that is not the proxy's. Loopback only. */
export async function loadHttp2(
  port: number,
  connections: number,
  seconds: number,
  { streams, call }: Http2Load
): Promise<Load> {
  const file = join(tmpdir(), `sluice-h2load-${process.pid}`)
  const times = `${file}.log`
  writeFileSync(file, MESSAGE)
  const fields = Object.entries(CALL).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const args = ['-t1', `-c${connections}`, `-m${streams}`, `-D${seconds}`, '--log-file', times]
  if (call) args.push('-d', file, ...fields)
  args.push(`http://127.0.0.1:${port}/bench.Echo/One`)
  const pinned = findProgram('taskset') !== undefined
  try {
    const { stdout } = await run(pinned ? 'taskset' : 'h2load', pinned ? ['-c', '1', 'h2load', ...args] : args)
    const count = (name: string) => Number(new RegExp(`(\\d+) ${name}`).exec(stdout)?.[1] ?? Number.NaN)
    const rate = Number(/, ([\d.]+) req\/s/.exec(stdout)?.[1] ?? Number.NaN)
    const total = Number(/traffic: [^\n]*\((\d+)\) total/.exec(stdout)?.[1] ?? Number.NaN)
    const succeeded = count('succeeded')
    if (!(succeeded > 0)) throw new Error(`h2load said:\n${stdout}`)
    // Lines of the log: start, status, microseconds.
    const took = Float64Array.from(readFileSync(times, 'latin1').trim().split('\n'), (line) =>
      Number(line.split('\t')[2])
    )
    took.sort()
    const at = (share: number) => (took[Math.floor(took.length * share)] ?? Number.NaN) / 1_000
    const errors = count('failed') + count('errored') + count('timeout')
    return { requests: succeeded, seconds: succeeded / rate, bytes: total, p50: at(0.5), p99: at(0.99), errors }
  } finally {
    rmSync(file, { force: true })
    rmSync(times, { force: true })
  }
}

/** A proxy that changes status, content or trailers is not worth a figure. Throws when it does. */
export async function checkHttp2(name: string, port: number, { call }: Http2Load): Promise<void> {
  const session = connect(`http://127.0.0.1:${port}`)
  try {
    const stream = session.request({
      ':path': '/bench.Echo/One',
      ':method': call ? 'POST' : 'GET',
      ...(call ? CALL : {})
    })
    let trailers: IncomingHttpHeaders = {}
    stream.on('trailers', (fields: IncomingHttpHeaders) => {
      trailers = fields
    })
    stream.end(call ? MESSAGE : undefined)
    const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    const content = await buffer(stream)
    const faithful =
      Number(head[':status']) === 200 &&
      head['content-type'] === (call ? 'application/grpc' : 'text/plain') &&
      content.equals(call ? MESSAGE : TEXT) &&
      (!call || trailers['grpc-status'] === '0')
    if (!faithful) throw new Error(`${name} does not answer: ${head[':status']}, ${content.length} bytes`)
  } finally {
    session.destroy()
  }
}
