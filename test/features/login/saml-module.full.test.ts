import t, { type Test } from 'tap'
import { issue } from '../../resources/certificates.js'
import { outcome } from '../route.js'
import { Browser, overNetwork } from './browser.js'
import { HOST, stage as productStage } from './module-stage.js'
import { SamlPages } from './saml-pages.js'

const NONE = { idp_metadata: '', idp_metadata_url: '' }

/** The product, and an identity provider with pages. */
async function stage(t: Test) {
  const product = await productStage(t, '')
  const pages = await SamlPages.start(t, () => product.clock.wall())
  pages.entity = `${product.site}/.sluice/saml/${product.route}`
  const visit = async (browser = new Browser(overNetwork), path = '/') =>
    browser.submit(await browser.visit(`${product.site}${path}`), {})
  return { ...product, says: pages.says, asked: pages.asked, address: pages.address, idp: pages.idp, visit }
}

t.test('users log in by metadata of a file, with a thread that reads the XML', async (t) => {
  const { put, api, path, idp, visit, site, seen, says, edge, route, get } = await stage(t)
  await put('saml', { idp_metadata: idp.metadata(), authorized_groups: ['staff'] })
  const { json: shown } = await api('GET', `${path}/saml`)
  t.match(shown, {
    enabled: true,
    idp_metadata_url: '',
    idp_metadata: idp.metadata(),
    force_authn: false,
    allow_idp_initiated: false,
    authorized_groups: ['staff'],
    cookie_prefix: '',
    inactivity_timeout: 0,
    maximum_duration: 0,
    options_passthrough: false,
    entity_id: `https://${HOST}/.sluice/saml/${route}`,
    metadata_url: `https://${HOST}/.sluice/saml/${route}`,
    assertion_consumer_service_url: `https://${HOST}/.sluice/saml/${route}/acs`,
    single_logout_url: '',
    request_signing_certificate_pem: '',
    nameid_format: 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent'
  })
  const { json: whole } = await api('GET', `/edges/https/${edge}`)
  t.same((whole.routes as { saml: unknown }[])[0]?.saml, shown, 'the edge shows the same')
  const header = {
    type: 'add-headers',
    config: {
      headers: {
        'x-user': '${actions.service.saml.identity.email}',
        'x-groups': "${actions.service.saml.identity.groups.join(',')}",
        'x-mail': "${actions.ngrok.saml.attributes['email'][0]}"
      }
    }
  }
  await put('traffic_policy', { value: JSON.stringify({ on_http_request: [{ actions: [header] }] }) })
  const browser = new Browser(overNetwork)
  const page = await visit(browser, '/a/b?c=d')
  t.same([page.status, page.body, page.url], [200, 'the upstream', `${site}/a/b?c=d`])
  t.notOk(seen.at(-1)?.headers.cookie)
  t.match(seen.at(-1)?.headers, { 'x-user': 'ann@example.com', 'x-groups': 'staff', 'x-mail': 'ann@example.com' })
  t.equal((await browser.once(`${site}/`)).status, 200, 'the session stays')
  const { json: recorded } = await api('GET', '/exchanges?limit=1')
  const [{ id } = { id: '' }] = recorded.exchanges as { id: string }[]
  t.match((await api('GET', `/exchanges/${id}`)).json, { signed_in: true }, 'its record says that the user is known')
  says.attributes = { groups: ['guests'] }
  t.equal((await visit()).status, 403, 'another group')
  t.equal(outcome(await get({ path: '/' })), '302')
  t.equal(outcome(await get({ path: '/', headers: { accept: 'application/json' } })), '401 LOGIN_REQUIRED')
  const out = await browser.once(`${site}/.sluice/logout`, { method: 'POST' })
  t.equal(out.status, 200)
  t.equal((await browser.once(`${site}/`)).status, 302, 'logged out')
})

t.test('metadata by URL: fetched once, and again when the identity provider signs with a new key', async (t) => {
  const { put, idp, visit, asked, address, clock } = await stage(t)
  await put('saml', { idp_metadata_url: `${address}/metadata` })
  t.equal((await visit()).status, 200)
  t.equal((await visit()).status, 200)
  t.same(asked, ['/metadata', '/sso', '/sso'])
  idp.keys = await issue({ subject: 'CN=new', algorithm: 'rsa' })
  clock.advance(6_000)
  t.equal((await visit()).status, 200, 'with the new key')
  t.equal(asked.filter((path) => path === '/metadata').length, 2)
})

t.test('what the API refuses', async (t) => {
  const { api, path, idp, put, visit } = await stage(t)
  const problem = async (body: object) => {
    const { status, json } = await api('PUT', `${path}/saml`, body)
    return `${status} ${JSON.stringify(json)}`
  }
  const xml = idp.metadata()
  t.match(await problem({}), /^400.*idp_metadata.*required/)
  t.match(await problem(NONE), /^400.*idp_metadata.*required/)
  t.match(await problem({ idp_metadata: xml, idp_metadata_url: 'https://idp.example.com' }), /^400.*idp_metadata_url/)
  t.match(await problem({ idp_metadata: 'hello' }), /^400.*EntityDescriptor/)
  t.match(await problem({ idp_metadata: `<!DOCTYPE a>${xml}` }), /^400.*document type/)
  t.match(await problem({ idp_metadata: xml.replaceAll('SingleSignOnService', 'X') }), /^400.*SingleSignOnService/)
  t.match(await problem({ idp_metadata: xml, nameid_format: 'entity' }), /^400.*nameid_format/)
  t.match(await problem({ idp_metadata: xml, entity_id: 'https://x' }), /^400.*entity_id/)
  t.match(await problem({ idp_metadata: xml, request_signing_key_pem: idp.keys.key }), /^400.*certificate_pem/)
  const other = await issue({ subject: 'CN=other', algorithm: 'rsa' })
  const pair = { request_signing_key_pem: other.key, request_signing_certificate_pem: idp.keys.pem }
  t.match(await problem({ idp_metadata: xml, ...pair }), /^400.*request_signing_key_pem/)
  await put('oidc', { issuer: 'https://issuer.example.com', client_id: 'a', client_secret: 'b' })
  t.match(await problem({ idp_metadata: xml }), /^(400|409).*only one of/)
  await put('oidc', { enabled: false, issuer: 'https://issuer.example.com', client_id: 'a', client_secret: 'b' })
  const right = { request_signing_key_pem: idp.keys.key, request_signing_certificate_pem: idp.keys.pem }
  await put('saml', { idp_metadata: xml, force_authn: true, ...right })
  const { json } = await api('GET', `${path}/saml`)
  t.equal(json.request_signing_key_pem, null, 'the key is never shown')
  t.equal((await visit()).status, 200, 'samlify verifies the signature of the request')
  const { status } = await api('DELETE', `${path}/saml`)
  t.equal(status, 204)
})
