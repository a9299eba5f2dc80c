import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { ImaginedRequest } from '../../../src/capabilities/explain/imagined-exchange.js'
import { PolicyBench } from '../../../src/capabilities/explain/running-lab.js'
import { openGeo } from '../../../src/lib/geo.js'
import { asker } from '../../api/asking.js'
import { fixture } from '../../helpers/files.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

const folder = fixture('policies/')
const published = JSON.parse(readFileSync(new URL('published.json', folder), 'utf8')) as {
  readonly file: string
  readonly expect: string
}[]

/** Requests for each policy; some of them come again, so that limits are met. */
const REQUESTS = 8
/** What no imagined request can know: it is not the same twice. */
const UNCERTAIN = /rand\.|uuid|\bjitter\b/i
/** Actions that a server without the option `waf.rules` refuses. */
const NEEDS_RULES = /owasp-crs-/

/** Numbers below a bound, the same in each run. */
function randoms(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
  readonly body: string | undefined
}

/** Requests that meet what a policy speaks of: its own texts are their paths, fields and values. */
function requestsFor(text: string, random: (below: number) => number): Asked[] {
  const words = [...text.matchAll(/['"]([\w./@:-]{1,60})['"]/g)].map(([, word]) => word as string)
  const paths = ['/', '/api/users', '/admin/', ...words.filter((word) => word.startsWith('/'))]
  const names = [
    'user-agent',
    'accept',
    'x-test',
    'authorization',
    ...words.filter((word) => /^[a-z-]{2,30}$/i.test(word))
  ]
  const pick = <T>(list: readonly T[]) => list[random(list.length)] as T
  const asked: Asked[] = []
  for (let n = 0; n < REQUESTS; n++) {
    if (n % 3 === 2) {
      asked.push(asked[n - 1] as Asked)
      continue
    }
    const method = pick(['GET', 'GET', 'POST', 'DELETE', 'HEAD', 'OPTIONS', 'PUT'])
    const headers: string[] = []
    for (let i = random(4); i > 0; i--) {
      const name = pick(names)
      if (!FRAMING.test(name)) headers.push(name, words.length > 0 && random(2) === 0 ? pick(words) : 'curl/8.0')
    }
    const query = random(3) === 0 ? `?${pick(['debug', 'id', 'token'])}=${random(3)}` : ''
    const body = method === 'POST' || method === 'PUT' ? '{"a":1}' : undefined
    asked.push({ method, path: encodeURI(pick(paths)) + query, headers, body })
  }
  return asked
}

const FRAMING = /^(host|connection|content-length|transfer-encoding|upgrade|expect|te|trailer|keep-alive|proxy-.*)$/i

interface Answer {
  readonly status: number
  readonly code: string | undefined
  readonly location: string | undefined
}

function ask(port: number, { method, path, headers, body }: Asked): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const fields = [
      'Host',
      'shop.example.com',
      ...headers,
      ...(body === undefined ? [] : ['Content-Length', String(body.length)])
    ]
    const sending = request(
      { port, host: '127.0.0.1', method, path, headers: fields as never, agent: false },
      (response) => {
        const { statusCode: status = 0, headers: got } = response
        response.resume()
        response.on('error', reject)
        response.on('end', () =>
          resolve({ status, code: got['sluice-error-code'] as string | undefined, location: got.location })
        )
      }
    )
    sending.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' ? resolve({ status: 0, code: undefined, location: undefined }) : reject(error)
    )
    sending.end(body)
  })
}

t.test('what is imagined is decided as what is sent, for every policy that people publish', async (t) => {
  const upstream = createServer((_request, response) => response.end())
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const sluice = await startSluice(t, {
    upstream: { port: (upstream.address() as AddressInfo).port },
    policy: 'on_http_request: []',
    options: { RECORDER_WHERE: 'true', RECORDER_BODIES: '64KiB' }
  })
  const api = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const replayed = async (count: number) => {
    await until(async () => (await api('/exchanges', { key })).json.exchanges.length === count)
    const { json } = await api('/replay', { method: 'POST', key, body: {} })
    await api('/exchanges', { method: 'DELETE', key })
    return json as { changed: number; same: number; not_judged: number; recorded: { other: number }; matrix: object }
  }
  const geo = await openGeo()
  let [compared, decided, outside, judged, unjudged] = [0, 0, 0, 0, 0]
  for (const { file, expect } of published) {
    if (expect !== 'accept') continue
    const text = readFileSync(new URL(`published/${file}`, folder), 'utf8')
    if (UNCERTAIN.test(text) || NEEDS_RULES.test(text)) continue
    const bench = new PolicyBench({ geo, policy: { source: file, text }, random: Math.random, reveal: true })
    const stub = { status: 200, headers: [], body: undefined }
    let asksOthers = false
    const unanswered = () => {
      asksOthers = true
      return undefined
    }
    const made = bench.open({ now: Date.now(), stub, outside: unanswered })
    if ('problems' in made) continue
    const requests = requestsFor(text, randoms(file.length + 1))
    let exchanges = 0
    const imagined: { readonly asked: Asked; readonly answer: Answer }[] = []
    for (const asked of requests) {
      const { decision, response, steps } = await made.lab.ask(imaginedRequest(asked))
      const location = fieldOf(response?.headers ?? [], 'location')
      imagined.push({ asked, answer: { status: decision.status, code: decision.code ?? undefined, location } })
      if (decision.by !== null) decided++
      if (!steps.some(({ on, outcome }) => on === 'connect' && outcome === 'closed')) exchanges++
    }
    // What another server says cannot be known; that it was not asked is said.
    if (asksOthers) {
      outside++
      continue
    }
    await sluice.reload(text)
    await api('/exchanges', { method: 'DELETE', key })
    for (const { asked, answer } of imagined) {
      const real = await ask(sluice.port, asked)
      compared++
      t.same(real, answer, `${file}: ${JSON.stringify(asked)}`)
    }
    const { changed, same, not_judged, recorded, matrix } = await replayed(exchanges)
    t.same([changed, recorded.other], [0, 0], `${file}: replayed as it was: ${JSON.stringify(matrix)}`)
    judged += same
    unjudged += not_judged
  }
  t.ok(compared > 800, `${compared} requests`)
  t.ok(decided > 100, `${decided} of them are decided by a rule`)
  t.ok(judged > 800, `${judged} replayed requests are judged`)
  t.ok(unjudged < judged / 10, `${unjudged} are not`)
  t.ok(outside < 60, `${outside} policies ask others`)
})

function imaginedRequest({ method, path, headers, body }: Asked): ImaginedRequest {
  return {
    method,
    url: new URL(`http://shop.example.com${path}`),
    headers,
    version: '1.1',
    clientAddress: '127.0.0.1',
    clientPort: 40_000,
    ...(body === undefined ? {} : { body: Buffer.from(body) })
  }
}

function fieldOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]?.toLowerCase() === name) return headers[i + 1]
  return undefined
}
