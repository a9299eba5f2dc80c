import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { optionEntries } from '../../src/options/catalogue.js'
import { FOLDER, only, stages } from './containerfile.js'

t.test('the image has two stages, a user without rights, a health check and a signal', async (t) => {
  const [build = [], image = [], ...more] = await stages()
  t.same(more, [])
  t.match(only(build, 'FROM'), / AS build$/)
  const steps = build.filter(({ name }) => name === 'RUN').map(({ text }) => text)
  t.match(steps, [/^npm ci --omit=dev /, /^node config\/binary\.mjs /, /node config\/image\.mjs /])
  t.equal(only(image, 'FROM'), 'scratch', 'no shell, no package manager')
  t.equal(only(image, 'USER'), '65532:65532')
  t.equal(only(image, 'STOPSIGNAL'), 'SIGTERM')
  t.match(only(image, 'HEALTHCHECK'), /CMD \["\/usr\/bin\/sluice", "status", "--ready"\]$/)
  t.same(JSON.parse(only(image, 'ENTRYPOINT')), ['/usr/bin/sluice'], 'no shell is between the signal and the process')
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  for (const [name = ''] of only(image, 'ENV').matchAll(/SLUICE_[A-Z_]+(?==)/g)) t.ok(variables.has(name), name)
})

t.test('the compose file names what exists, and asks for secrets', async (t) => {
  const { services } = parse(await readFile(join(FOLDER, 'compose.yaml'), 'utf8'), { merge: true })
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  const places = new Set<string>()
  for (const name of ['sluice-1', 'sluice-2', 'sluice-3']) {
    const { environment, ports, ...service } = services[name]
    for (const variable of Object.keys(environment))
      t.ok(variables.has(variable) || ['SLUICE_API_KEY', 'SLUICE_SEAL_KEY'].includes(variable), variable)
    t.match(service, {
      read_only: true,
      cap_drop: ['ALL'],
      build: { dockerfile: 'config/container/Containerfile' }
    })
    for (const secret of ['SLUICE_STORE', 'SLUICE_API_KEY', 'SLUICE_SEAL_KEY'])
      t.ok(String(environment[secret]).includes(':?'), secret)
    for (const port of ports) places.add(port)
  }
  t.equal(places.size, 6, 'each has ports of its own: not every program spreads a range over several containers')
})
