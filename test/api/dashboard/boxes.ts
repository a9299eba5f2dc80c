import type { Page } from 'playwright-core'

/**
 * Looks at the boxes of all texts and controls of a page, shadow trees included: answers what sticks out of the window or of a box that
 * clips, and what lies on something else. A box that can be scrolled clips nothing, and a text that ends in an ellipsis may do so where its
 * whole is its title.
 */
export async function boxFaults(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(LOOK)) as readonly string[]
}

/** More than the rounding of positions and what letters reach beyond their line. Pixels. */
const LOOK = `(() => {
  const SLACK = 2
  const texts = []
  const faults = []
  const name = (element) => element.tagName.toLowerCase() + (element.className ? '.' + String(element.className).split(' ').join('.') : '')
  const parentOf = (node) => node.parentElement ?? (node.getRootNode().host ?? null)
  const visible = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
  /** Boxes that a text is cut by, each with what it may do sideways. */
  const clipped = (element, box) => {
    let cut
    for (let at = element; at !== null; at = parentOf(at)) {
      const style = getComputedStyle(at)
      if (style.clipPath !== 'none') return { hidden: true }
      if (style.position === 'fixed') break
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue
      const outer = at.getBoundingClientRect()
      const ends = style.textOverflow === 'ellipsis' && (at.closest('[title]') ?? at.querySelector('[title]')) !== null
      const scrolls = (value) => value === 'auto' || value === 'scroll'
      const [wide, high] = [scrolls(style.overflowX), scrolls(style.overflowY)]
      if (wide || high) box = { left: Math.max(box.left, outer.left), right: Math.min(box.right, outer.right), top: Math.max(box.top, outer.top), bottom: Math.min(box.bottom, outer.bottom) }
      if (box.right - box.left < SLACK || box.bottom - box.top < SLACK) return { hidden: true }
      if (!wide && !ends && (box.right > outer.right + SLACK || box.left < outer.left - SLACK)) cut ??= name(at)
      if (!high && (box.bottom > outer.bottom + SLACK || box.top < outer.top - SLACK)) cut ??= name(at)
      if (ends) box = { ...box, right: Math.min(box.right, outer.right) }
    }
    return { cut, box }
  }
  const add = (element, rect, text) => {
    if (rect.width < 1 || rect.height < 1 || !visible(element)) return
    const found = clipped(element, rect)
    if (found.hidden) return
    const label = name(element) + ' "' + text.trim().slice(0, 40) + '"'
    if (found.cut !== undefined) faults.push(label + ' is cut by ' + found.cut)
    const { box } = found
    if (box.left < -SLACK || box.right > innerWidth + SLACK) faults.push(label + ' sticks out of the window')
    texts.push({ element, label, box })
  }
  const pen = document.createElement('canvas').getContext('2d')
  const hint = (element) => {
    const style = getComputedStyle(element)
    pen.font = style.font
    // The button that clears a search takes room while it is not shown, too.
    const button = element.type === 'search' ? parseFloat(style.fontSize) : 0
    const room = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - button
    if (pen.measureText(element.placeholder).width > room + SLACK) faults.push(name(element) + ': its hint "' + element.placeholder + '" is cut')
  }
  const walk = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (element.shadowRoot) walk(element.shadowRoot)
      if (element.matches('script, style, noscript, option, svg, svg *')) continue
      if (element.matches('input, select, textarea')) add(element, element.getBoundingClientRect(), element.getAttribute('name') ?? element.type ?? '')
      if (element.matches('input[placeholder]') && visible(element)) hint(element)
      for (const node of element.childNodes) {
        if (node.nodeType !== Node.TEXT_NODE || node.data.trim() === '') continue
        const range = document.createRange()
        range.selectNodeContents(node)
        for (const rect of range.getClientRects()) add(element, rect, node.data)
      }
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push('the page scrolls sideways')
  for (const box of document.querySelectorAll('.table-box'))
    if (box.scrollWidth > box.clientWidth + SLACK) faults.push('the table ' + box.getAttribute('aria-label') + ' is cut')
  walk(document)
  texts.sort((a, b) => a.box.top - b.box.top)
  for (let i = 0; i < texts.length; i++) {
    for (let j = i + 1; j < texts.length && texts[j].box.top < texts[i].box.bottom - SLACK; j++) {
      const [a, b] = [texts[i], texts[j]]
      if (a.element === b.element || a.element.contains(b.element) || b.element.contains(a.element)) continue
      const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left)
      const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top)
      if (wide > SLACK && high > SLACK + 2) faults.push(a.label + ' lies on ' + b.label)
    }
  }
  return [...new Set(faults)]
})()`
