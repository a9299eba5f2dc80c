import { readFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

/**
 * A server of one, or of several threads, whose handler costs about 15 µs: what `threads.ts` compares.
 *
 * `threads-server.js MODE PORT THREADS [CERTIFICATE KEY]`, MODE one of `single`, `transfer`, `reuse`. It answers each message of
 * its parent process with what each thread has served so far.
 */
type Mode = 'single' | 'transfer' | 'reuse'

interface ThreadData {
  readonly mode: Mode
  readonly port: number
  readonly counts: SharedArrayBuffer
  readonly index: number
  readonly certificate: string | undefined
  readonly key: string | undefined
}

/** Of each thread: connections that it took, that are open, and requests. */
const [TAKEN, OPEN, REQUESTS, WIDTH] = [0, 1, 2, 16]
/** Rounds of the loop that stands for parsing, policies and the upstream: about 15 µs. */
const WORK = 12_000
const ANSWER = Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: 102\r\n\r\n${'x'.repeat(102)}`)
const LAST = Buffer.from(`HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 102\r\n\r\n${'x'.repeat(102)}`)
const CLOSES = Buffer.from('onnection: close')
const options = { noDelay: true, pauseOnConnect: true }

if (isMainThread) main()
else thread(workerData as ThreadData)

function main(): void {
  const [mode, at, threads, certificate, key] = process.argv.slice(2) as [Mode, string, string, string?, string?]
  const port = Number(at)
  const width = mode === 'single' ? 1 : Number(threads)
  const counts = new SharedArrayBuffer(width * WIDTH * 4)
  const view = new Int32Array(counts)
  process.on('message', () => {
    const of = (index: number, what: number) => Atomics.load(view, index * WIDTH + what)
    process.send?.(
      Array.from({ length: width }, (_, i) => ({ taken: of(i, TAKEN), open: of(i, OPEN), requests: of(i, REQUESTS) }))
    )
  })
  process.on('disconnect', () => process.exit())
  const about = (index: number): ThreadData => ({ mode, port, counts, index, certificate, key })
  if (mode === 'single') {
    thread(about(0))
    return
  }
  const workers = Array.from(
    { length: width },
    (_, index) => new Worker(new URL(import.meta.url), { workerData: about(index) })
  )
  if (mode === 'transfer') {
    createServer(options, (socket) => {
      let least = 0
      for (let i = 1; i < width; i++) {
        if (Atomics.load(view, i * WIDTH + OPEN) < Atomics.load(view, least * WIDTH + OPEN)) least = i
      }
      Atomics.add(view, least * WIDTH + OPEN, 1)
      workers[least]?.postMessage(socket, [socket as never])
    }).listen({ port, host: '127.0.0.1', backlog: 4_096 })
  }
}

function thread({ mode, port, counts, index, certificate, key }: ThreadData): void {
  const view = new Int32Array(counts)
  const own = index * WIDTH
  const secureContext =
    certificate === undefined || key === undefined
      ? undefined
      : createSecureContext({ cert: readFileSync(certificate), key: readFileSync(key) })
  const serve = (socket: Socket): void => {
    Atomics.add(view, own + TAKEN, 1)
    const stream = secureContext === undefined ? socket : new TLSSocket(socket, { isServer: true, secureContext })
    socket.on('error', () => socket.destroy())
    stream.on('error', () => socket.destroy())
    socket.on('close', () => Atomics.sub(view, own + OPEN, 1))
    stream.on('data', (chunk: Buffer) => {
      work()
      Atomics.add(view, own + REQUESTS, 1)
      if (chunk.includes(CLOSES)) stream.end(LAST)
      else stream.write(ANSWER)
    })
    stream.on('end', () => stream.end())
    stream.resume()
  }
  if (mode === 'transfer') {
    parentPort?.on('message', serve)
    return
  }
  createServer(options, (socket) => {
    Atomics.add(view, own + OPEN, 1)
    serve(socket)
  }).listen({ port, host: '127.0.0.1', backlog: 4_096, reusePort: mode === 'reuse' } as object)
}

/** A fixed amount of computing, so that what other processes take counts as time and never as work. */
function work(): number {
  let state = 2_463_534_242
  for (let i = 0; i < WORK; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
  }
  return state
}
