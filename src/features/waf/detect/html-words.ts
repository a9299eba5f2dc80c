/** Elements that run code or load documents without any attribute. */
export const ACTIVE_TAGS: ReadonlySet<string> = new Set(
  'script style iframe svg math xss applet frameset bgsound layer ilayer xml isindex vmlframe portal fencedframe foreignobject'.split(
    ' '
  )
)

/** Elements that are active by the values of their attributes. Without one they are also types of programming languages (`List<Object>`). */
export const ACTIVE_TAGS_WITH_ATTRIBUTES: ReadonlySet<string> = new Set(
  'object embed link base meta frame import handler listener animate animatemotion animatetransform set use noscript comment'.split(
    ' '
  )
)

/** Attributes whose value is an address that a browser loads or opens. */
export const ADDRESS_ATTRIBUTES: ReadonlySet<string> = new Set(
  (
    'action background by cite classid code codebase data dynsrc folder formaction from href icon longdesc lowsrc manifest poster ' +
    'profile src srcdoc to usemap values'
  ).split(' ')
)

/** Attributes that are dangerous with any value. */
export const ACTIVE_ATTRIBUTES: ReadonlySet<string> = new Set('datasrc dataformatas srcdoc'.split(' '))

/** Event handlers. Other names with `on` count only inside of a tag. */
export const EVENT_ATTRIBUTES: ReadonlySet<string> = new Set(
  (
    'onabort onactivate onafterprint onafterscriptexecute onanimationcancel onanimationend onanimationiteration onanimationstart ' +
    'onauxclick onbeforecopy onbeforecut onbeforeinput onbeforematch onbeforepaste onbeforeprint onbeforescriptexecute ' +
    'onbeforetoggle onbeforeunload onbegin onblur onbounce oncancel oncanplay oncanplaythrough onchange onclick onclose ' +
    'oncontentvisibilityautostatechange oncontextmenu oncopy oncuechange oncut ondblclick ondrag ondragend ondragenter ondragexit ' +
    'ondragleave ondragover ondragstart ondrop ondurationchange onemptied onend onended onerror onfinish onfocus onfocusin ' +
    'onfocusout onformdata onfullscreenchange ongotpointercapture onhashchange oninput oninvalid onkeydown onkeypress onkeyup onload ' +
    'onloadeddata onloadedmetadata onloadend onloadstart onlostpointercapture onmessage onmousedown onmouseenter onmouseleave ' +
    'onmousemove onmouseout onmouseover onmouseup onmousewheel onoffline ononline onpagehide onpageshow onpaste onpause onplay ' +
    'onplaying onpointercancel onpointerdown onpointerenter onpointerleave onpointermove onpointerout onpointerover ' +
    'onpointerrawupdate onpointerup onpopstate onprogress onpropertychange onratechange onreadystatechange onrepeat onreset ' +
    'onresize onscroll onscrollend onsearch onseeked onseeking onselect onselectionchange onselectstart onshow onstalled onstart ' +
    'onstorage onsubmit onsuspend ontimeupdate ontoggle ontouchcancel ontouchend ontouchmove ontouchstart ontransitioncancel ' +
    'ontransitionend ontransitionrun ontransitionstart onunhandledrejection onunload onvolumechange onwaiting onwebkitanimationend ' +
    'onwebkitanimationiteration onwebkitanimationstart onwebkittransitionend onwheel onzoom'
  ).split(' ')
)

/** Schemes that run code, without the colon. */
export const ACTIVE_SCHEMES: readonly string[] = ['javascript', 'vbscript', 'livescript', 'mocha', 'view-source', 'jar']

/** Media types of `data:` addresses that show no document and run no code. */
export const PASSIVE_DATA: readonly string[] = [
  'image/png',
  'image/jpeg',
  'image/jpg',
  'image/gif',
  'image/webp',
  'image/bmp',
  'image/avif',
  'image/x-icon',
  'audio/',
  'video/',
  'font/'
]

/** Parts of styles that run code or load more style. */
export const ACTIVE_STYLES: readonly string[] = [
  'expression(',
  'javascript:',
  'vbscript:',
  'behavior:',
  '-moz-binding',
  '@import',
  'url(data:'
]

/** Entities that hide an address, besides numeric ones. Names of HTML have a case. */
export const ADDRESS_ENTITIES: ReadonlyMap<string, string> = new Map([
  ['Tab', '\t'],
  ['NewLine', '\n'],
  ['colon', ':'],
  ['semi', ';'],
  ['sol', '/'],
  ['lpar', '('],
  ['rpar', ')'],
  ['period', '.'],
  ['comma', ','],
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
  ['nbsp', ' ']
])
