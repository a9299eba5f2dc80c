import { readFile, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { readNginx } from '../../../../src/capabilities/import/nginx/read.js'
import { chooses } from '../../../../src/capabilities/import/proof/prove.js'
import { writeSiteFile } from '../../../../src/capabilities/import/site-file.js'
import { startSluice } from '../../../helpers/sluice.js'
import { freePort } from '../../../proxy/free-port.js'
import { NEEDS_NGINX, startEcho, startNginx } from '../real-nginx.js'

const SETS = 200
const PARTS = ['a', 'ab', 'b', 'c.png', 'img', 'x']
const PATTERNS = ['\\.png$', '^/a', '/b', '^/a/(b|x)', 'img', '/ab?/', '^/(a|b)/[a-z]+$', 'x$', 'A', '\\.(png|gif)$']

/** A generator of numbers of its own, so that a failure can be repeated. */
function generator(seed: number) {
  let state = seed
  return (limit: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return (state >> 8) % limit
  }
}

interface Generated {
  readonly locations: readonly string[]
  readonly paths: readonly string[]
}

/** Locations of one server, and paths at their edges. `body`: what a location holds, by its name. */
function generate(set: number, body: (name: string) => string): Generated {
  const random = generator(set + 1)
  const path = () =>
    `/${Array.from({ length: random(3) }, () => PARTS[random(PARTS.length)]).join('/')}${random(2) === 0 ? '/' : ''}`.replace(
      '//',
      '/'
    )
  const seen = new Set<string>()
  const paths = ['/', '/zz', '/a/zz.png', '/A/b']
  let count = 0
  const make = (depth: number, outer: string): string[] =>
    Array.from({ length: 2 + random(5 - 2 * depth) }, () => {
      const kind = random(10)
      const name = `l${count++}`
      if (kind >= 7) {
        const pattern = PATTERNS[random(PATTERNS.length)] as string
        return `location ${kind === 7 ? '~*' : '~'} "${pattern}" { ${body(name)} }`
      }
      const own = outer === '' ? path() : `${outer.replace(/\/$/, '')}${path()}`
      const modifier = kind === 0 ? '=' : kind === 1 ? '^~' : ''
      // nginx refuses two prefixes with the same path, and two exact ones.
      const key = `${modifier === '=' ? '=' : ''}${own}`
      if (seen.has(key)) return ''
      seen.add(key)
      const bare = own.replace(/\/$/, '')
      paths.push(
        own,
        bare === '' ? '/' : bare,
        `${bare}/`,
        `${own}x`,
        `${bare}/b`,
        `${bare}/x/c.png`,
        `${bare}/img`,
        `${bare}.png`
      )
      const inner = depth === 0 && modifier === '' && random(4) === 0 ? make(1, own) : []
      return `location ${modifier} ${own} { ${body(name)} ${inner.join('\n')} }`
    }).filter((location) => location !== '')
  const locations = make(0, '')
  return { locations, paths: [...new Set(paths)] }
}

const agent = new Agent({ keepAlive: true, maxSockets: 8 })

/** Status, Location and text of an answer. */
function ask(port: number, host: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, headers: { host }, agent }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => {
        const { statusCode, headers } = response
        const location = headers.location === undefined ? '' : new URL(headers.location, `http://${host}`).pathname
        resolve(`${statusCode} ${location}${statusCode === 200 ? text : ''}`)
      })
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

t.test('the same location wins as in nginx, in 200 generated sets', NEEDS_NGINX, async (t) => {
  t.teardown(() => agent.destroy())
  const [port, echo] = [await freePort(), await startEcho(t)]
  const sets = Array.from({ length: SETS }, (_, set) =>
    generate(set, (name) =>
      set % 2 === 0
        ? `return 200 "${name}";`
        : `proxy_set_header X-Winner ${name}; proxy_pass http://127.0.0.1:${echo};`
    )
  )
  const servers = sets.map(
    ({ locations }, set) => `server { listen 127.0.0.1:${port}; server_name s${set}.test;\n${locations.join('\n')}\n}`
  )
  const file = await startNginx(t, servers.join('\n'), port)
  const config = await readNginx([file], {
    readFile: (path) => readFile(path, 'utf8'),
    listFolder: async () => [],
    environment: {}
  })
  const ownPort = await freePort()
  const { text, statements } = writeSiteFile(config, { portOf: () => ownPort })
  const siteFile = join(t.testdir({}), 'site.yaml')
  await writeFile(siteFile, text)
  await startSluice(t, { options: { SITE_FILE: siteFile, ACCESS_LOG: 'off' } })

  let compared = 0
  let named = 0
  const differences: string[] = []
  for (const [set, { paths, locations }] of sets.entries()) {
    const host = config.hosts.find(({ names }) => names.includes(`s${set}.test`))
    // Paths that a prefix without a slash takes in nginx alone: a verdict names this difference.
    const close = (host?.routes ?? []).filter(({ at }) =>
      statements.some(
        (one) =>
          one.at.line === at.line &&
          one.at.column === at.column &&
          /it takes \/.* but not/.test(JSON.stringify(one.verdict))
      )
    )
    const results = await Promise.all(
      paths.map(async (path) => {
        const [old, now] = await Promise.all([ask(port, `s${set}.test`, path), ask(ownPort, `s${set}.test`, path)])
        return { path, old, now }
      })
    )
    for (const { path, old, now } of results) {
      const winner = host?.routes.find((route) => chooses(route, { target: path, method: 'GET' }))
      const [test] = winner?.tests ?? []
      const isNamed =
        winner !== undefined &&
        close.includes(winner) &&
        test?.kind === 'path-prefix' &&
        path !== test.path &&
        !path.startsWith(`${test.path}/`)
      compared++
      if (isNamed) named++
      else if (old !== now)
        differences.push(`s${set}.test${path}: nginx ${old}, here ${now}\n${locations.join('\n')}\n${winner?.label}`)
    }
  }
  t.same(differences.slice(0, 5), [], `${differences.length} requests differ`)
  t.ok(compared > 4000, `${compared} requests were compared`)
  t.ok(named < compared / 10, `${named} of them differ as a verdict says`)
  t.comment(`${compared} requests, ${named} of them with a difference that a verdict names`)
})
