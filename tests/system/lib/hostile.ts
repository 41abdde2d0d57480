// Texts that would do something if a page took them for more than text.

/** Each as a task could write it; what it tries, by its name. */
export const hostile: Readonly<Record<string, string>> = {
  "a script": `<script>window.hit="script"</script>`,
  "an image that fails": `<img src=x onerror="window.hit='img'">`,
  "the end of an attribute": `"><svg onload=window.hit='svg'>`,
  "the end of a text": `</textarea></pre></title></style><iframe srcdoc="<script>parent.hit=1</script>">`,
  "a style": `<style>main{display:none}</style>`,
  "an address that is a script": `javascript:window.hit='url'`,
  "markup of other languages": `[x](javascript:window.hit=1) {{constructor.constructor('window.hit=1')()}}`,
  "entities": `&lt;img src=x onerror=window.hit=1&gt; &#x3c;b&#x3e;`,
  "colours with more in them": `\u001b[31;48;2;1;2;3murl(x)\u001b[38;5;999mred\u001b[0m`,
  "a link of terminals": `\u001b]8;;javascript:window.hit='osc'\u0007click\u001b]8;;\u0007`,
  "a title of terminals": `\u001b]0;window.hit=1\u0007\u001b[2J\u001b[999;999Hmoved`,
  "text that runs backwards": `\u202Egnp.exe\u202C \u2066x\u2069`,
  "names of every object": `__proto__ constructor toString`,
  "lines that are none": `one\u2028two\u2029three\u0085four`,
  "a word without an end": `${"wide".repeat(80)}<b>`,
  "what cannot be seen": `\u0001\u0007\u0008\u007f\u200b\ufeff<i>end`,
};

export const texts: readonly string[] = Object.values(hostile);

/** What a page must not have, whatever was written: elements and attributes that only markup could have made. */
export const foreign = [
  "main :is(script, style, iframe, object, embed, img, b > b, title:not(svg title))",
  "main [onload], main [onerror]",
  `main a[href^="javascript" i]`,
].join(", ");
