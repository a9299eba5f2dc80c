import t from 'tap'
import { dashboard, missing, signIn, violations } from './browser.js'
import { PAGES } from './busy.js'

t.test('people sign in with an API key, and out again', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, context, sluice, url } = await dashboard(t, { key: null })
  await page.getByLabel('API key').waitFor()
  t.equal(await page.title(), 'Sign in · Sluice')
  t.same(await violations(page), [])
  await page.getByLabel('API key').fill('a-key-that-opens-nothing')
  await page.keyboard.press('Enter')
  t.match(await page.getByRole('alert').textContent(), /the API key is not valid.*ERR_SLUICE_SESSION_KEY_INVALID/s)
  await signIn(page, sluice.apiKey)
  const [cookie] = await context.cookies(url)
  t.match(cookie, { name: /^sluice\.dashboard\.session\./, httpOnly: true, sameSite: 'Strict' })
  t.equal(await page.evaluate('document.cookie'), '', 'no script sees it')
  t.notOk(await page.evaluate(`document.documentElement.outerHTML.includes(${JSON.stringify(sluice.apiKey)})`))
  await page.reload()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  t.pass('a reload asks for no key')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('API key').waitFor()
  t.same(await context.cookies(url), [])
})

for (const scheme of ['light', 'dark'] as const) {
  t.test(`every page can be used by everybody, ${scheme}`, { skip: missing, timeout: 120_000 }, async (t) => {
    const { page, go, picture } = await dashboard(t, { scheme })
    for (const name of PAGES) {
      await go(name)
      t.same(await violations(page), [], name)
      t.match(await page.title(), / · Sluice$/)
      await picture(`${name}-${scheme}`)
    }
  })
}

t.test('every page fits a small window', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, go, picture } = await dashboard(t, { size: { width: 360, height: 640 } })
  for (const name of PAGES) {
    await go(name)
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${name} does not scroll sideways`)
    await picture(`${name}-small`)
  }
})

t.test('the keyboard is enough', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page } = await dashboard(t)
  await page.keyboard.press('Tab')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the page')
  await page.keyboard.press('Enter')
  t.equal(await page.evaluate('document.activeElement.id'), 'main')
  const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Processes' })
  await link.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Processes', level: 1 }).waitFor()
  // It is set after the page is drawn.
  await page.waitForFunction("document.title.startsWith('Processes')")
})
