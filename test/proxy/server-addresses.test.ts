import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

t.test('names with underscores stand wherever a host stands', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const upstream = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `my_app.localhost:${upstream.port}` })
  await site(sluice, 'shop_1.example.com', { backend: { backend_id: id } })
  t.match(await visit(sluice, 'shop_1.example.com'), { status: 200, body: 'ok' })
  t.equal((await create(sluice, '/backends/static', { address: 'Stack_web:3000' })).address, 'stack_web:3000')
  const domain = await create(sluice, '/reserved_domains', { domain: 'a_b.example.com' })
  const managed = { certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'ecdsa' } }
  t.match(await ask(`/reserved_domains/${domain.id}`, { method: 'PATCH', body: managed }), {
    status: 400,
    json: { msg: /the domain has an underscore, and public authorities sign no such name/ }
  })
  for (const address of ['-a:80', 'a-:80', 'a b:80', 'a$b:80'])
    t.equal((await ask('/backends/static', { method: 'POST', body: { address } })).status, 400, address)
})
