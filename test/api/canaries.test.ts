import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { resources } from '../../src/resources/registry.js'
import { API_KEY, startSluice } from '../helpers/sluice.js'
import { issue } from '../resources/certificates.js'
import { type Asked, asker } from './asking.js'

/** All bytes of a folder, its own folders included. */
async function bytesOf(folder: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  return new Map(await Promise.all(files.map(async (file) => [file, await readFile(file)] as const)))
}

t.test('planted secrets turn up in no file, log, list, difference, metric or error', async (t) => {
  const data = t.testdir()
  const sluice = await startSluice(t, { options: { DATA: data, API_RATE_LIMIT: 'off' } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const api = (path: string, asked: Asked = {}) => ask(path, { key: API_KEY, ...asked })
  const make = async (path: string, body: object = {}) => {
    const answer = await api(path, { method: 'POST', body })
    t.equal(answer.status, 201, answer.text)
    return answer.json
  }
  const { key, pem } = await issue({ subject: 'CN=canary.test' })
  const plant = (name: string) => `canary-${name}-that-must-not-sing`
  const vault = await make('/vaults', { name: 'v' })
  const secret = await make('/vault_secrets', { vault_id: vault.id, name: 'n', value: plant('value') })
  await api(`/vault_secrets/${secret.id}`, { method: 'PATCH', body: { value: plant('second-value') } })
  await make('/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  await make('/ssh_certificate_authorities')
  const target = { webhook: { url: 'https://a.test/', secret: plant('target') } }
  await make('/event_destinations', { target })
  const tokens = [(await make('/api_keys')).token, (await make('/credentials')).token]
  const edge = await make('/edges/https')
  const route = await make(`/edges/https/${edge.id}/routes`, {
    match: '/',
    webhook_verification: { provider: 'github', secret: plant('hook') },
    oauth: { provider: { github: { client_id: 'c', client_secret: plant('client'), scopes: ['read:user'] } } }
  })
  const planted = ['value', 'second-value', 'target', 'hook', 'client', 'wrong-key', 'broken-body', 'wrong-field'].map(
    plant
  )
  const keyLines = key.split('\n').filter((line) => line.length > 40)
  const canaries = [...planted, ...tokens, API_KEY, ...keyLines]

  const texts: string[] = []
  texts.push((await ask('/vaults', { key: plant('wrong-key') })).text)
  texts.push((await api('/vault_secrets', { method: 'POST', body: `{"value":"${plant('broken-body')}",}` })).text)
  const wrong = {
    vault_id: vault.id,
    name: '',
    value: plant('wrong-field'),
    [plant('wrong-field')]: [plant('wrong-field')]
  }
  texts.push(
    (await api('/vault_secrets', { method: 'POST', body: { ...wrong, [plant('wrong-field')]: undefined } })).text
  )
  for (const { path, operations } of resources) {
    if (operations.includes('list') && !path.includes('{')) texts.push((await api(path)).text)
  }
  texts.push((await api('/metrics')).text, (await api('/openapi.json')).text, (await api('/processes')).text)
  for (const { id } of (await api('/revisions')).json.revisions) texts.push((await api(`/revisions/${id}/diff`)).text)
  for (const path of ['/vault_secrets', '/tls_certificates', '/ssh_certificate_authorities', '/event_destinations']) {
    const [entries = []] = Object.values<{ id: string }[]>((await api(path)).json)
    t.ok(entries.length > 0, path)
    for (const { id } of entries) texts.push((await api(`${path}/${id}`)).text)
  }
  const shown = await api(`/edges/https/${edge.id}/routes/${route.id}`)
  t.match(shown.text, plant('hook'), 'its owner reads it back')
  await api(`/vault_secrets/${secret.id}`, { method: 'DELETE' })
  const whileRunning = await bytesOf(data)
  await sluice.stop()
  const files = new Map([...whileRunning, ...(await bytesOf(data))])
  t.ok(files.size >= 2, 'there are files to look into')
  const log = JSON.stringify(sluice.log)
  for (const canary of canaries) {
    t.notOk(
      texts.some((text) => text.includes(canary)),
      `no answer has ${canary.slice(0, 40)}`
    )
    t.notOk(log.includes(canary), 'nor has the log')
    for (const [file, bytes] of files) t.notOk(bytes.includes(canary), `nor has ${file}`)
  }
  await rm(data, { recursive: true, force: true })
})
