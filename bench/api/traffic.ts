import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { WebSocket } from 'ws'
import { percentile } from './percentile.js'

/**
 * Traffic that must not notice anything, in a thread of its own: paced requests on connections that are never opened
 * again, a WebSocket and a download. Each message is answered with what was seen since the one before; the
 * message `end` ends all in peace first.
 */
export interface Seen {
  readonly requests: number
  /** Requests that got something else than their answer. */
  readonly failed: number
  /** Connections that ended: of requests, of the WebSocket, of the download. */
  readonly dropped: number
  readonly echoes: number
  readonly downloaded: number
  /** Milliseconds from when a request was due. */
  readonly p50: number
  readonly p99: number
  readonly longest: number
}

export interface TrafficData {
  readonly port: number
  readonly host: string
  /** Requests a second over all connections. */
  readonly rate: number
  readonly connections: number
}

const { port, host, rate, connections } = workerData as TrafficData
const EXPECTED = 'steady'

let running = true
let failed = 0
let dropped = 0
let echoes = 0
let downloaded = 0
let latencies: number[] = []

function open(path: string): Socket {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  return socket
}

/** One keep-alive connection with one request at a time. */
async function visit(offset: number): Promise<void> {
  const every = (1_000 * connections) / rate
  await sleep(offset * (1_000 / rate))
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let closed = false
  let heard: (data: Buffer | undefined) => void = () => undefined
  socket.on('error', () => undefined)
  socket.on('data', (data) => heard(data))
  socket.on('close', () => {
    closed = true
    heard(undefined)
  })
  await once(socket, 'connect')
  let due = performance.now()
  while (running) {
    const answered = new Promise<string | undefined>((resolve) => {
      let text = ''
      heard = (data) => {
        text += data?.toString('latin1') ?? ''
        if (data === undefined) resolve(undefined)
        else if (text.endsWith(EXPECTED) || text.includes('\r\n\r\n')) resolve(text)
      }
    })
    if (!closed) socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const text = closed ? undefined : await answered
    if (text === undefined) {
      dropped++
      return
    }
    if (!text.startsWith('HTTP/1.1 200') || !text.endsWith(EXPECTED)) failed++
    latencies.push(performance.now() - due)
    due += every
    const wait = due - performance.now()
    if (wait > 1) await sleep(wait)
  }
  socket.destroy()
}

async function echo(): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    if (running) dropped++
  })
  await once(socket, 'open')
  while (running && socket.readyState === WebSocket.OPEN) {
    const text = `message ${echoes}`
    socket.send(text)
    const [data] = (await once(socket, 'message')) as [Buffer]
    if (data.toString() !== text) failed++
    echoes++
    await sleep(10)
  }
  socket.close()
}

/** Counts the bytes of the chunks; the end must be the end of the message, not of the connection. */
async function download(): Promise<void> {
  const socket = open('/slow')
  let text = ''
  let whole = false
  socket.on('data', (data) => {
    for (const byte of data) if (byte === 1) downloaded++
    text = (text + data.toString('latin1')).slice(-32)
    if (!text.endsWith('\r\n0\r\n\r\n')) return
    whole = true
    socket.end()
  })
  await once(socket, 'close')
  if (!whole) dropped++
}

const parts = [...Array.from({ length: connections }, (_, n) => visit(n)), echo(), download()]
parentPort?.on('message', async (message) => {
  if (message === 'end') {
    running = false
    await Promise.allSettled(parts)
  }
  const seen: Seen = {
    requests: latencies.length,
    failed,
    dropped,
    echoes,
    downloaded,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    longest: latencies.reduce((longest, one) => Math.max(longest, one), 0)
  }
  latencies = []
  parentPort?.postMessage(seen)
  if (message === 'end') parentPort?.close()
})
