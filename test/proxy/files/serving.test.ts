import { once } from 'node:events'
import { rename, writeFile } from 'node:fs/promises'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ManualClock } from '../../helpers/clock.js'
import { type RawAnswer, rawClient, valuesOf } from '../../helpers/raw-client.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { folderOf, LAST_MODIFIED, place } from './folder.js'

const BIG = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, index) => index % 251))
const SITE = {
  'index.html': '<h1>Home</h1>',
  'app.js': 'console.log(1)\n',
  'docs/index.html': 'docs',
  'docs/a b.txt': 'blank',
  'docs/ünï.txt': 'umlauts',
  'empty/keep.txt': '',
  'big.bin': BIG,
  '.well-known/security.txt': 'Contact: mailto:a@example.com\n'
}

for (const engine of engines) {
  const serve = async (
    t: Test,
    files: Readonly<Record<string, string | Uint8Array>> = SITE,
    clock = new ManualClock()
  ) => {
    const folder = await folderOf(t, files)
    const sluice = await startSluice(t, { engine, options: { FILES: folder }, clock })
    const client = await rawClient(sluice.port)
    t.teardown(() => client.socket.destroy())
    const ask = async (target: string, fields = '', method = 'GET'): Promise<RawAnswer> => {
      client.send(`${method} ${target} HTTP/1.1\r\nHost: a.test\r\n${fields}\r\n`)
      return await client.answer(method)
    }
    return { folder, sluice, ask, clock }
  }
  const field = (answer: RawAnswer, name: string) => valuesOf(answer, name).join('|')

  t.test(`${engine}: files, indexes and redirects of folders`, async (t) => {
    const { ask } = await serve(t)
    for (const round of ['looked at', 'from memory']) {
      const home = await ask('/')
      t.equal(home.status, 200, round)
      t.equal(home.body, '<h1>Home</h1>')
      t.equal(field(home, 'content-type'), 'text/html; charset=utf-8')
      t.equal(field(home, 'content-length'), '13')
      t.equal(field(home, 'last-modified'), LAST_MODIFIED)
      t.match(field(home, 'etag'), /^"[0-9a-f]+-[0-9a-f]+"$/)
      t.equal(field(home, 'accept-ranges'), 'bytes')
      t.equal(field(home, 'vary'), '')
      t.equal(field(home, 'cache-control'), '')
    }
    t.equal((await ask('/docs/')).body, 'docs')
    const slash = await ask('/docs?a=1')
    t.equal(slash.status, 308)
    t.equal(field(slash, 'location'), './docs/?a=1')
    t.equal((await ask('/docs/a%20b.txt')).body, 'blank')
    t.equal((await ask('/docs/%C3%BCn%C3%AF.txt')).body, 'umlauts')
    t.equal((await ask('/empty/keep.txt')).status, 200)
    t.equal((await ask('/empty/')).status, 404)
    t.equal((await ask('/app.js/')).status, 404)
    t.equal((await ask('/none')).status, 404)
    t.equal((await ask('/.well-known/security.txt')).status, 200)
    const big = await ask('/big.bin')
    t.equal(field(big, 'content-length'), String(BIG.length))
    t.equal(field(big, 'content-type'), 'application/octet-stream')
    t.ok(Buffer.from(big.body, 'latin1').equals(BIG))
  })

  t.test(`${engine}: methods`, async (t) => {
    const { ask } = await serve(t)
    for (const path of ['/', '/big.bin']) {
      const head = await ask(path, '', 'HEAD')
      const get = await ask(path)
      t.equal(head.status, 200)
      for (const name of ['content-length', 'content-type', 'etag', 'last-modified'])
        t.equal(field(head, name), field(get, name), name)
      t.equal(field(head, 'content-length'), String(get.body.length))
    }
    const options = await ask('/', '', 'OPTIONS')
    t.equal(options.status, 204)
    t.equal(field(options, 'allow'), 'GET, HEAD, OPTIONS')
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND']) {
      const refused = await ask('/', 'Content-Length: 0\r\n', method)
      t.equal(refused.status, 405, method)
      t.equal(field(refused, 'allow'), 'GET, HEAD, OPTIONS')
    }
  })

  t.test(`${engine}: conditions (RFC 9110 13)`, async (t) => {
    const { ask } = await serve(t)
    for (const path of ['/app.js', '/big.bin']) {
      const plain = await ask(path)
      const tag = field(plain, 'etag')
      const EARLIER = 'Wed, 04 Mar 2026 05:06:06 GMT'
      const LATER = 'Wed, 04 Mar 2026 05:06:08 GMT'
      const table: [fields: string, status: number][] = [
        [`If-None-Match: ${tag}`, 304],
        [`If-None-Match: W/${tag}`, 304],
        [`If-None-Match: "x", ${tag}`, 304],
        ['If-None-Match: "x"\r\nIf-None-Match: *', 200],
        [`If-None-Match: "x"\r\nIf-None-Match: ${tag}`, 304],
        ['If-None-Match: *', 304],
        ['If-None-Match: "x"', 200],
        [`If-None-Match: ${tag}\r\nCache-Control: no-cache`, 304],
        [`If-Modified-Since: ${LAST_MODIFIED}`, 304],
        [`If-Modified-Since: ${LATER}`, 304],
        [`If-Modified-Since: ${EARLIER}`, 200],
        ['If-Modified-Since: tomorrow', 200],
        ['If-Modified-Since: 2030', 200],
        [`If-Modified-Since: ${LATER}\r\nIf-None-Match: "x"`, 200],
        [`If-Modified-Since: ${LATER}\r\nIf-Modified-Since: ${LATER}`, 200],
        [`If-Match: ${tag}`, 200],
        ['If-Match: *', 200],
        ['If-Match: "x"', 412],
        [`If-Match: W/${tag}`, 412],
        [`If-Match: W/${tag}, ${tag}`, 200],
        [`If-Unmodified-Since: ${LAST_MODIFIED}`, 200],
        [`If-Unmodified-Since: ${EARLIER}`, 412],
        [`If-Unmodified-Since: ${EARLIER}\r\nIf-Match: ${tag}`, 200],
        ['If-Unmodified-Since: never', 200]
      ]
      for (const [fields, status] of table) {
        const answer = await ask(path, `${fields}\r\n`)
        t.equal(answer.status, status, `${path} ${fields}`)
        if (status === 200) t.equal(answer.body.length, plain.body.length)
        if (status === 304) {
          t.equal(field(answer, 'etag'), tag)
          t.equal(field(answer, 'content-type'), '')
          t.equal(field(answer, 'content-length'), '')
        }
      }
    }
  })

  t.test(`${engine}: ranges (RFC 9110 14)`, async (t) => {
    const { ask } = await serve(t, { ...SITE, 'ten.txt': '0123456789', none: '' })
    const tag = field(await ask('/ten.txt'), 'etag')
    const table: [fields: string, status: number, body: string, range: string][] = [
      ['Range: bytes=0-3', 206, '0123', 'bytes 0-3/10'],
      ['Range: bytes=7-', 206, '789', 'bytes 7-9/10'],
      ['Range: bytes=-2', 206, '89', 'bytes 8-9/10'],
      ['Range: bytes=-50', 206, '0123456789', 'bytes 0-9/10'],
      ['Range: bytes=0-99999999999999999999999', 206, '0123456789', 'bytes 0-9/10'],
      ['Range: BYTES=9-9', 206, '9', 'bytes 9-9/10'],
      ['Range: bytes=2-3,', 206, '23', 'bytes 2-3/10'],
      ['Range: bytes=10-', 416, 'Range not satisfiable\n', 'bytes */10'],
      ['Range: bytes=99999999999999999999999-', 416, 'Range not satisfiable\n', 'bytes */10'],
      ['Range: bytes=-0', 416, 'Range not satisfiable\n', 'bytes */10'],
      ...[
        'bytes=0-1,3-4',
        'bytes=1-2-3',
        'bytes=0x0-5',
        'bytes=3-1',
        'bytes=a-b',
        'bytes=-',
        'bytes=',
        'bytes 0-3',
        'bytes=+1-3',
        'bytes=1.5-3',
        'items=0-3',
        'bytes=--3'
      ].map((range): [string, number, string, string] => [`Range: ${range}`, 200, '0123456789', '']),
      ['Range: bytes=0-1\r\nRange: bytes=2-3', 200, '0123456789', ''],
      [`Range: bytes=0-3\r\nIf-Range: ${tag}`, 206, '0123', 'bytes 0-3/10'],
      [`Range: bytes=0-3\r\nIf-Range: W/${tag}`, 200, '0123456789', ''],
      ['Range: bytes=0-3\r\nIf-Range: "x"', 200, '0123456789', ''],
      [`Range: bytes=0-3\r\nIf-Range: ${LAST_MODIFIED}`, 206, '0123', 'bytes 0-3/10'],
      ['Range: bytes=0-3\r\nIf-Range: Wed, 04 Mar 2026 05:06:08 GMT', 200, '0123456789', ''],
      ['Range: bytes=0-3\r\nIf-Match: "x"', 412, 'Precondition failed\n', '']
    ]
    for (const [fields, status, body, range] of table) {
      const answer = await ask('/ten.txt', `${fields}\r\n`)
      t.equal(answer.status, status, fields)
      t.equal(answer.body, body, fields)
      t.equal(field(answer, 'content-range'), range, fields)
    }
    t.equal((await ask('/none', 'Range: bytes=0-\r\n')).status, 416, 'nothing of an empty file')
    t.equal((await ask('/none', 'Range: bytes=-5\r\n')).status, 416)
    const head = await ask('/ten.txt', 'Range: bytes=0-3\r\n', 'HEAD')
    t.equal(head.status, 200, 'a range goes with GET alone')
    t.equal(field(head, 'content-length'), '10')
    const long = await ask('/big.bin', 'Range: bytes=100000-270000\r\n')
    t.equal(long.status, 206)
    t.ok(Buffer.from(long.body, 'latin1').equals(BIG.subarray(100_000, 270_001)))
  })

  t.test(`${engine}: a changed file is sent within a second, whole`, async (t) => {
    const clock = new ManualClock()
    const { folder, ask } = await serve(t, SITE, clock)
    t.equal((await ask('/app.js')).body, SITE['app.js'])
    await writeFile(join(folder, 'next.js'), 'console.log(2)\n')
    await rename(join(folder, 'next.js'), join(folder, 'app.js'))
    clock.advance(999)
    t.equal((await ask('/app.js')).body, SITE['app.js'], 'kept for a second')
    t.equal((await ask('/app.js', 'If-Match: *\r\n')).body, 'console.log(2)\n', 'a condition looks at once')
    clock.advance(1)
    t.equal((await ask('/app.js')).body, 'console.log(2)\n')
    await place(join(folder, 'big.bin'), BIG.subarray(1))
    t.equal((await ask('/big.bin')).body.length, BIG.length - 1, 'a long one is looked at when it is opened')
  })
}

t.test('HTTP/2 gets the same', async (t) => {
  const folder = await folderOf(t, SITE)
  const sluice = await startSluice(t, { options: { FILES: folder } })
  const session = connect(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => session.destroy())
  const ask = async (fields: Record<string, string>) => {
    const stream = session.request({ ':authority': 'a.test', ...fields })
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    const ended = once(stream, 'end')
    const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status': number }]
    await ended
    return { head, body: Buffer.concat(chunks) }
  }
  const home = await ask({ ':path': '/' })
  t.equal(home.head['content-length'], '13')
  t.equal(home.body.toString(), '<h1>Home</h1>')
  const again = await ask({ ':path': '/', 'if-none-match': String(home.head.etag) })
  t.equal(again.head[':status'], 304)
  const head = await ask({ ':path': '/big.bin', ':method': 'HEAD' })
  t.equal(head.head['content-length'], String(BIG.length))
  t.equal(head.body.length, 0)
  t.ok((await ask({ ':path': '/big.bin' })).body.equals(BIG))
  const part = await ask({ ':path': '/big.bin', range: 'bytes=200000-' })
  t.equal(part.head[':status'], 206)
  t.ok(part.body.equals(BIG.subarray(200_000)))
})
