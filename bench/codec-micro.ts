import { systemClock } from '../src/lib/clock.js'
import { HeadReader } from '../src/transport/http1/head-reader.js'
import { DateLine, FieldNames, Serialiser } from '../src/transport/http1/serialise.js'

/** Nanoseconds for the parts of the codec that work on each message, best of some rounds. */
const LIMITS = { headerBytes: 65_536, headers: 200, targetBytes: 8192 }
const SMALL = 'GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n'
const BROWSER = `GET /a/path/to/something?with=a&query=b HTTP/1.1\r\nHost: www.example.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\nCookie: session=${'x'.repeat(120)}; theme=dark\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n\r\n`
const ANSWER =
  'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 102\r\nDate: Fri, 20 Nov 2026 00:00:00 GMT\r\n\r\n'

const names = new FieldNames()
const serialiser = new Serialiser(names, new DateLine(systemClock))
let sink = 0

function best(work: () => void): number {
  const count = 200_000
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5; round++) {
    const begun = process.hrtime.bigint()
    for (let i = 0; i < count; i++) work()
    least = Math.min(least, Number(process.hrtime.bigint() - begun) / count)
  }
  return least
}

function reading(kind: 'request' | 'response', text: string): () => void {
  const reader = new HeadReader(kind, LIMITS, names)
  const bytes = Buffer.from(text, 'latin1')
  return () => {
    reader.next()
    sink += reader.read(bytes.toString('latin1')) + reader.list.length
  }
}

function listOf(text: string): string[] {
  const reader = new HeadReader('request', LIMITS, names)
  reader.next()
  reader.read(text)
  return reader.list
}

function writing(text: string): () => void {
  const head = {
    method: 'GET',
    target: '/',
    authority: 'a',
    scheme: 'http',
    version: '1.1',
    headers: listOf(text)
  } as const
  const out = Buffer.alloc(16_384)
  return () => {
    sink += out.write(serialiser.request(head, { kind: 'none' }, false, false) ?? '', 'latin1')
  }
}

console.log(`read a small request head     ${best(reading('request', SMALL)).toFixed(0)} ns`)
console.log(
  `read a browser's request head ${best(reading('request', BROWSER)).toFixed(0)} ns (${BROWSER.length} bytes)`
)
console.log(`read a small response head    ${best(reading('response', ANSWER)).toFixed(0)} ns`)
console.log(`write a small request head    ${best(writing(SMALL)).toFixed(0)} ns`)
console.log(`write a browser's head        ${best(writing(BROWSER)).toFixed(0)} ns`)
if (sink === 0) throw new Error('nothing was measured')
