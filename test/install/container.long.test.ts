import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { freePort } from '../proxy/free-port.js'
import { only } from './containerfile.js'
import { buildImage, insideContainer, lacksImages } from './image.js'
import { stepsBelow } from './pages.js'

const run = promisify(execFile)

t.test(
  'the image that the first line of docs/install.md builds runs as its other lines say, as its user, until the signal',
  { skip: lacksImages(), timeout: 600_000 },
  async (t) => {
    const [build = '', start = '', ask = ''] = (await stepsBelow('Container image')).trim().split('\n')
    t.match(
      build,
      /--format docker .*-f config\/container\/Containerfile/,
      'other images of podman have no health check'
    )
    t.match(start, / --read-only --cap-drop ALL --volume sluice:\/data /, 'as the test runs it')
    const image = await buildImage(t, t.testdir({}), 'abc123def456')
    const { instructions, root } = image
    await t.rejects(access(join(root, 'bin', 'sh')), 'it has no shell')
    const bill = await readFile(join(root, 'usr/share/doc/sluice/sbom.cdx.json'), 'utf8')
    const { components } = JSON.parse(bill) as { components: { name: string; purl?: string }[] }
    for (const name of ['fastify', 'node', 'libc6'])
      t.ok(
        components.find((each) => each.name === name),
        name
      )
    t.match(components.find(({ name }) => name === 'libc6')?.purl, /^pkg:deb\/debian\/libc6@\d/)
    const api = `127.0.0.1:${await freePort()}`
    const path = `${image.env.PATH}:${process.env.PATH}`
    const env = { ...image.env, PATH: path, SLUICE_LISTEN: '127.0.0.1:0', SLUICE_API_LISTEN: api }
    const inside = (words: readonly string[]) => insideContainer({ image }, words)
    const check = async (words = image.health) => await run(...inside(words), { env })
    await t.rejects(check(), { code: 1 }, 'nothing runs yet')
    const [program = ''] = image.command
    t.match((await check([program, '--version'])).stdout, 'commit abc123def456, Node 26')
    const words = start.slice(start.indexOf(' sluice start')).trim().split(' ').slice(1)
    const child = spawn(...inside([program, ...words]), { env, stdio: ['ignore', 'pipe', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    child.stderr?.on('data', (piece) => {
      said += piece
    })
    const ended = once(child, 'close')
    let line = ''
    for await (line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }))
      if (line.includes('"msg":"listening"')) break
    t.match(line, /"msg":"listening"/, said)
    child.stdout?.resume()
    for (const words of [image.health, ask.split(' ').slice(-3)]) t.match((await check(words)).stdout, /^ready/)
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
    const user = only(instructions, 'USER').split(':')[0] as string
    t.match(status, new RegExp(`^Uid:\\s+${user}\\s+${user}`, 'm'))
    t.match(status, /^NoNewPrivs:\s+1$/m)
    await t.rejects(mkdir(`/proc/${child.pid}/root/written`), { code: 'EROFS' })
    child.kill(only(instructions, 'STOPSIGNAL') as NodeJS.Signals)
    t.same(await ended, [0, null])
  }
)
