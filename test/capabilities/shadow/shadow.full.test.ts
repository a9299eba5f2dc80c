import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { fixture } from '../../helpers/files.js'
import { startSluice } from '../../helpers/sluice.js'

const folder = fixture('policies/')
const published = JSON.parse(readFileSync(new URL('published.json', folder), 'utf8')) as {
  readonly file: string
  readonly expect: string
}[]

/** Numbers below a bound, the same in each run. */
function randoms(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

const FRAMING = /^(host|connection|content-length|transfer-encoding|upgrade|expect|te|trailer|keep-alive|proxy-.*)$/i
const REQUESTS = 6

interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
}

/** Requests that meet what a policy speaks of; some come again, so that limits are met. */
function requestsFor(text: string, random: (below: number) => number): Asked[] {
  const words = [...text.matchAll(/['"]([\w./@:-]{1,60})['"]/g)].map(([, word]) => word as string)
  const paths = ['/', '/api/users', '/admin/', ...words.filter((word) => word.startsWith('/'))]
  const names = ['user-agent', 'accept', 'authorization', ...words.filter((word) => /^[a-z-]{2,30}$/i.test(word))]
  const pick = <T>(list: readonly T[]) => list[random(list.length)] as T
  return Array.from({ length: REQUESTS }, () => {
    const headers: string[] = ['Host', 'shop.example.com']
    for (let i = random(4); i > 0; i--) {
      const name = pick(names)
      if (!FRAMING.test(name)) headers.push(name, words.length > 0 && random(2) === 0 ? pick(words) : 'curl/8.0')
    }
    return { method: pick(['GET', 'GET', 'DELETE', 'HEAD', 'OPTIONS']), path: encodeURI(pick(paths)), headers }
  })
}

function send(port: number, { method, path, headers }: Asked): Promise<void> {
  return new Promise((resolve, reject) => {
    const sending = request(
      { port, host: '127.0.0.1', method, path, headers: headers as never, agent: false },
      (response) => {
        response.resume()
        response.on('error', reject)
        response.on('end', resolve)
      }
    )
    sending.on('error', (error: NodeJS.ErrnoException) => (error.code === 'ECONNRESET' ? resolve() : reject(error)))
    sending.end()
  })
}

interface Shadow {
  readonly id: string
  readonly counts: Readonly<Record<string, number>>
  readonly not_judged: Readonly<Record<string, number>>
  readonly matrix: readonly { readonly differs: readonly string[] }[]
}

t.test('beside itself no policy that people publish decides otherwise', async (t) => {
  const upstream = createServer((asked, response) => {
    response.setHeader('cache-control', 'no-store')
    // Answers overtake each other.
    setTimeout(() => response.end(asked.url), (asked.url ?? '').length % 5)
  })
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const sluice = await startSluice(t, {
    upstream: { port: (upstream.address() as AddressInfo).port },
    policy: 'on_http_request: []'
  })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  let [judged, unjudged] = [0, 0]
  const reasons: Record<string, number> = {}
  for (const { file, expect } of published) {
    if (expect !== 'accept') continue
    const text = readFileSync(new URL(`published/${file}`, folder), 'utf8')
    if (!(await sluice.reload(text)).ok) continue
    const requests = requestsFor(text, randoms(file.length + 1))
    // What it has counted before the shadow begins, the candidate goes on from.
    await Promise.all(requests.slice(0, 2).map((asked) => send(sluice.port, asked)))
    const body = { policies: [{ route: 'default', text }], budget: '50ms' }
    const begun = await ask('/shadows', { method: 'POST', body, key })
    if (begun.status !== 201) throw new Error(`${file}: ${begun.text}`)
    const { id } = begun.json as unknown as Shadow
    await Promise.all([...requests, ...requests].map((asked) => send(sluice.port, asked)))
    let shadow = (await ask(`/shadows/${id}`, { key })).json as unknown as Shadow
    for (let attempt = 0; shadow.counts.waiting !== 0 && attempt < 100; attempt++) {
      await new Promise((turn) => setTimeout(turn, 5))
      shadow = (await ask(`/shadows/${id}`, { key })).json as unknown as Shadow
    }
    await ask(`/shadows/${id}`, { method: 'DELETE', key })
    const { counts } = shadow
    t.equal(counts.changed, 0, `${file}: ${JSON.stringify(shadow.matrix.filter(({ differs }) => differs.length > 0))}`)
    t.equal(counts.waiting, 0, file)
    judged += counts.judged ?? 0
    unjudged += counts.not_judged ?? 0
    for (const [reason, count] of Object.entries(shadow.not_judged)) reasons[reason] = (reasons[reason] ?? 0) + count
  }
  t.ok(judged > 1_000, `${judged} exchanges were judged`)
  t.comment(`${judged} ${unjudged} ${JSON.stringify(reasons)}`)
  t.ok(unjudged > 50, `${unjudged} were not: ${JSON.stringify(reasons)}`)
})
